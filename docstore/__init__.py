"""docstore: a document store for crawled pages that knows what it has already seen.

import docstore

with docstore.open("webtable", create=True) as store:
    result = store.put_page("https://example.com/", b"<p>Hello")
    print(result.verdict.kind, store.get("https://example.com/").text)

`docstore.connect("http://localhost:8470")` gives the same of a store that `docstore serve` holds.
"""

from importlib import import_module

TYPE_CHECKING = False  # mypy takes it for True; `typing` takes half as long as the interpreter's own start
if TYPE_CHECKING:
    from docstore.archives.selection import Selection
    from docstore.model.choices import Durability, VerdictKind
    from docstore.model.errors import (
        CommitUnknown,
        CorruptionError,
        DocstoreError,
        InvalidArgument,
        StorageError,
        StoreUnavailable,
        UnsupportedFormat,
    )
    from docstore.model.types import (
        Append,
        Cell,
        ColumnFamily,
        Condition,
        DeleteCells,
        DeleteFamily,
        DeleteRow,
        GCPolicy,
        Increment,
        Note,
        Page,
        Policy,
        Previous,
        PutResult,
        ReadSpec,
        Schema,
        SetCell,
        Verdict,
    )
    from docstore.reading.documents import Document
    from docstore.serving.client import RemoteStore, connect
    from docstore.store import DocumentStore
    from docstore.store import open_store as open  # noqa: A004 - `docstore.open` reads as `gzip.open` does
    from docstore.version import __version__
else:

    def __getattr__(name: str) -> object:
        """A public name, loaded when it is first asked for, so that a command of the terminal loads what it needs."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        for module in (
            *(
                "version",
                "model.errors",
                "model.choices",
                "model.types",
                "reading.documents",
                "store",
                "serving.client",
            ),
            "archives.selection",
        ):
            loaded = import_module(f"{__name__}.{module}")
            found = getattr(loaded, "open_store" if name == "open" else name, None)
            if found is not None:
                globals()[name] = found
                return found
        raise AssertionError(name)


__all__ = [
    "Append",
    "Cell",
    "ColumnFamily",
    "CommitUnknown",
    "Condition",
    "CorruptionError",
    "DeleteCells",
    "DeleteFamily",
    "DeleteRow",
    "DocstoreError",
    "Document",
    "DocumentStore",
    "Durability",
    "GCPolicy",
    "Increment",
    "InvalidArgument",
    "Note",
    "Page",
    "Policy",
    "Previous",
    "PutResult",
    "ReadSpec",
    "RemoteStore",
    "Schema",
    "Selection",
    "SetCell",
    "StorageError",
    "StoreUnavailable",
    "UnsupportedFormat",
    "Verdict",
    "VerdictKind",
    "__version__",
    "connect",
    "open",
]
