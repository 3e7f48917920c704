"""Native code, which is required: the only file that imports `docstore_native`, and only one that was built for it."""

from __future__ import annotations

import os

__all__ = ["INTERFACE", "docstore_native"]

INTERFACE = 46
"""What native code offers and expects; native/python/src/lib.rs has the same number.  Raised where either changes, so
that code built for another docstore is refused and not called wrongly."""

_HOW_TO_GET = "install docstore from a wheel, or install cargo and run `pip install .` in a checkout of docstore"

try:
    from docstore.dedup import docstore_native
except ImportError as error:
    raise ImportError(f"docstore needs its native kernel, docstore_native: {error}; {_HOW_TO_GET}") from error
_found = getattr(docstore_native, "INTERFACE", 0)
if _found != INTERFACE:
    raise ImportError(
        f"docstore_native was built for another docstore (interface {_found}, not {INTERFACE}): remove the file "
        f"{getattr(docstore_native, '__file__', '')}, then {_HOW_TO_GET}"
    )
os.register_at_fork(after_in_child=docstore_native.note_fork)
