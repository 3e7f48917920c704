"""Native code: whether it is there, and whether it was built for this docstore.

Only this file imports `docstore_native`, so all callers see the same answer.  Each caller has the same function in
Python, which is slower.
"""

from __future__ import annotations

__all__ = ["HOW_TO_GET", "INTERFACE", "WHY_NOT", "docstore_native"]

INTERFACE = 22
"""What native code offers and expects; native/python/src/lib.rs has the same number.  Raised where either changes, so
that code built for another docstore is left alone and not called wrongly."""

HOW_TO_GET = "install docstore from a wheel, or install cargo and run `pip install .` in a checkout of docstore"
"""The end of each message that says why native code does not run."""

try:
    from docstore.dedup import docstore_native
except ImportError as error:
    docstore_native = None  # type: ignore[assignment]
    WHY_NOT: str = (
        "docstore_native is not built"
        if isinstance(error, ModuleNotFoundError) or not str(error.name).endswith("docstore_native")
        else f"docstore_native does not load: {error}"
    )
else:
    _found = getattr(docstore_native, "INTERFACE", 0)
    WHY_NOT = (
        ""
        if _found == INTERFACE
        else f"docstore_native is of another docstore (interface {_found}, not {INTERFACE}): remove the file "
        f"{getattr(docstore_native, '__file__', '')} and build it again"
    )
