"""docstore: a document store for crawled pages that knows what it has already seen.

import docstore

with docstore.open("webtable", create=True) as store:
    result = store.put_page("https://example.com/", b"<p>Hello")
    print(result.verdict.kind, store.get("https://example.com/").text)
"""

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
    Durability,
    GCPolicy,
    Increment,
    Page,
    Policy,
    Previous,
    PutResult,
    ReadSpec,
    Schema,
    SetCell,
    Verdict,
    VerdictKind,
)
from docstore.store import DocumentStore
from docstore.store import open_store as open  # noqa: A004 - `docstore.open` reads as `gzip.open` does
from docstore.version import __version__

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
    "DocumentStore",
    "Durability",
    "GCPolicy",
    "Increment",
    "InvalidArgument",
    "Page",
    "Policy",
    "Previous",
    "PutResult",
    "ReadSpec",
    "Schema",
    "SetCell",
    "StorageError",
    "StoreUnavailable",
    "UnsupportedFormat",
    "Verdict",
    "VerdictKind",
    "__version__",
    "open",
]
