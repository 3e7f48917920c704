"""Frames with a dictionary or a base, made by native code where it is built.

Asks native code for zstd frames without magic and content size, as `codec` makes them, several times faster.  Must not
know codecs or records.  `codec` is the reference: it makes every frame that is not made here, and decodes all of them.
The bytes of the two differ, what they decode to does not.
"""

from __future__ import annotations

from importlib import import_module

from docstore import compiled
from docstore.compiled import docstore_native


class IndexedDictionary:
    """A dictionary's content, indexed once for any number of threads.

    Attributes:
        native: for native code that encodes many values.
    """

    def __init__(self, content: bytes) -> None:
        self.native = docstore_native.FrameDictionary(content)

    @property
    def memory_bytes(self) -> int:
        """What native code holds: the content, room for a value after it, and the index."""
        return self.native.memory_bytes

    def frame(self, raw: bytes, limit: int | None = None) -> bytes | None:
        """The frame of a value with it; None if the reference has to make one.

        Args:
            raw: the value.
            limit: where a part of the value says that its frame would be clearly longer, b"" is given in its place.
        """
        try:
            return self.native.frame(raw, limit)
        except RuntimeError as error:
            _report(error, raw)
            return None

    def frames(self, body: bytes, text: bytes, limit: int | None = None) -> tuple[bytes, bytes] | None:
        """The frame of a body with it, and that of the body's text against the body: one search for copies.

        Two times b"" if the body's frame would be clearly longer than the limit.
        """
        try:
            return self.native.frames(body, text, limit)
        except RuntimeError as error:
            _report(error, body)
            return None


def index(content: bytes) -> IndexedDictionary | None:
    """A dictionary for frames made here; None without native code."""
    if compiled.WHY_NOT:
        return None
    try:
        return IndexedDictionary(content)
    except RuntimeError as error:
        _report(error, content)
        return None


def delta(raw: bytes, base: bytes, limit: int | None = None) -> bytes | None:
    """The frame of a delta against a base; None if the reference has to make one, b"" as in `frame`."""
    if compiled.WHY_NOT:
        return None
    try:
        return docstore_native.delta_frame(raw, base, limit)
    except RuntimeError as error:
        _report(error, raw)
        return None


def _report(error: RuntimeError, raw: bytes) -> None:
    import_module("logging").getLogger(__name__).error(  # loaded late: a cold read logs nothing
        "%s; the reference encodes these %d bytes: please report it", error, len(raw)
    )
