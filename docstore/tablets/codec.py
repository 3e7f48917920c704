"""How a raw value becomes a record's payload and back: delta, dictionary or plain (`ValueCodec.choose`).

The only importer of zstandard.  Must not know where records lie, nor where bases and dictionaries come from: they are
handed in when encoding, and asked for by their checksum when decoding.

Frames are written without magic and content size, 5 to 7 bytes that a delta of 200 bytes would feel: the record's codec
says that it is zstd, and its raw length bounds the output.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice, repeat
from typing import Any, NamedTuple, TypeAlias, TypeVar

import zstandard

from docstore import compiled
from docstore.model.capture import BODY, MAIN, Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_RELATED_BYTES,
    ZSTD_FRAME_MAGIC,
)
from docstore.model.pointers import PagePointer
from docstore.storage.bases import Base, value_name
from docstore.storage.cache import LruCache
from docstore.tablets.record import Record

LEVEL = 3
"""zstd's own default: 17.7% of the raw bytes of manual pages, at some 250 MB/s."""
DELTA_LEVEL = 6
"""At least this: deltas take 2.5% of manual pages in place of 3.0 at level 3, in the same time with tables that fit."""
PACK_LEVEL = 6
"""Of dictionary files: one of 600 KB takes 4 ms."""
DECODING_BYTES = 128 << 20
"""Dictionaries held for reading, shared by all threads: those of 235 sites of manuals are 93 MB."""
MAX_CACHED_COMPRESSORS = 16
"""A thread's compressors with a dictionary, of some 1 MB each: where native code does not make the frames."""
BASE_LIMIT_BYTES = 8 << 20
"""A longer base is not used: decoding would have to make all of it again for one page."""
_WINDOW_LOG_MAX = 27
_WINDOW_LOG_MIN = 10
_HASH_LOG_MAX = 21
"""8 MB of table: indexes 16 MB of base, more than `BASE_LIMIT_BYTES`: zstd indexes no more of a raw dictionary than
eight bytes an entry of its tables, and takes the end of it."""
_CONTENT_SIZE_BITS = 0xE0
"""Of a frame's first byte: content size present, or a single segment, which implies it."""
_SIZE_IN_FOUR_BYTES = 0x80
_ONE_SEGMENT_SIZE_IN_FOUR_BYTES = ZSTD_FRAME_MAGIC + b"\xa0"
_BLOCK_BYTES = 128 << 10
"""A zstd block holds at most so much."""

_ZSTD_TABLES_BYTES = (4 << 17) + (4 << 16)
"""Of a dictionary that zstd itself compresses with: see `_dictionary_parameters`."""

_NOWHERE = PagePointer(0, b"")


Made = TypeVar("Made")
Resolve: TypeAlias = Callable[[bytes], bytes]
"""From the checksum of a dictionary or base to its raw bytes."""


class Encoded(NamedTuple):
    """What becomes part of a record.

    Attributes:
        codec: one of CODEC_.
        related: checksum of dictionary or base; else b"".  Of CODEC_ZSTD_BODY, b"": the length of the body's record is
            to be filled in.
        payload: the frame.
        text: of a body, the frame of its text against it, if that was made in the same pass; else b"".
    """

    codec: int
    related: bytes
    payload: bytes
    text: bytes = b""


DELTA_COST = {BODY: (12, 200), MAIN: (6, 50)}
"""What a delta is weighed against, by column: below one part in so many of the raw bytes it is taken at once; another
has to save so many bytes, for the row of its base and a second decode at every read.  zstd alone hardly ever gets a
body to a twelfth, a text hardly to a quarter; and the body of such a text is mostly a delta as well."""
ON_BODY_COST = (4, 100)
"""The same of a text against its own body."""
MAX_THREADS = 8
"""Threads that encode the values of a group."""
LONGEST_OWN_BODY_BYTES = 4 << 20
MOST_OWN_BODY_SHARE = 16
"""A body is no base of a text that is so many times shorter: each read of the text decodes all of it."""


class NewValue(NamedTuple):
    """A value of a group whose values are encoded together.

    Attributes:
        column: of the value.
        raw: the value.
        name: by which a delta names it as its base; b"" if no other value of the group may be a delta against it.
        bases: to try, the likeliest first; a number is that of an earlier value of the group: that value, or its base
            if it is a delta.
        dictionary: of the column.
        text: see `ValueCodec.choose`.
        body: see `ValueCodec.choose`.
    """

    column: Column
    raw: bytes
    name: bytes = b""
    bases: Sequence[Base | int] = ()
    dictionary: Dictionary | None = None
    text: bytes = b""
    body: tuple[bytes, bytes] | None = None


Chosen: TypeAlias = tuple[Encoded, Base | None, Base]
"""How a value of a group is encoded; the base that it is a delta against, or None; and what others may be a delta
against: that base, or the value itself.  Of a base in the group, only name and bytes are known."""


class Dictionary:
    """A raw-content dictionary, prepared once for any number of threads.

    Attributes:
        checksum: 16 bytes; names it in records.
        indexed: makes frames in native code; None without it, or above `LEVEL`.

    Args:
        content: its raw bytes.
        level: of zstd.
        load: gives the content again, so that it is not held beside what native code makes of it; None holds it.
        checksum: of the content, if the caller knows it.
    """

    def __init__(
        self, content: bytes, level: int = LEVEL, load: Callable[[], bytes] | None = None, checksum: bytes = b""
    ) -> None:
        self.checksum = checksum or value_name(content)
        self.indexed: compiled.docstore_native.FrameDictionary | None = None
        if level <= LEVEL and not compiled.WHY_NOT:
            self.indexed = _natively(compiled.docstore_native.FrameDictionary, content)
        self._load = load
        self._content = None if load is not None and self.indexed else content
        self._level = level
        self._prepared: zstandard.ZstdCompressionDict | None = None if self.indexed else self._prepare()

    @property
    def content(self) -> bytes:
        """Its raw bytes.

        Raises:
            CorruptionError: they are loaded again, and cannot be read.
        """
        if self._content is not None or self._load is None:
            return self._content or b""
        return self._load()

    @property
    def memory_bytes(self) -> int:
        """What is held for it, but for what `prepared` makes where native code fails."""
        held = 0 if self._content is None else len(self._content)
        return held + (self.indexed.memory_bytes if self.indexed else held + _ZSTD_TABLES_BYTES)

    @property
    def prepared(self) -> zstandard.ZstdCompressionDict:
        """For zstd's own compression; prepared when first asked for where native code does the work."""
        if self._prepared is None:
            self._prepared = self._prepare()
        return self._prepared

    def _prepare(self) -> zstandard.ZstdCompressionDict:
        prepared = zstandard.ZstdCompressionDict(self.content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        prepared.precompute_compress(compression_params=_dictionary_parameters(self._level))
        return prepared


@cache
def _dictionary_parameters(level: int) -> zstandard.ZstdCompressionParameters:
    """How values are compressed with a dictionary.

    While pages come in: greedy, with the tables of level 3.  For each page zstd takes the dictionary's tables over, by
    copying them where the page is long, and what is small is copied quickly.  Measured on pages of six manuals: 9.4% in
    56 us, where level 3 takes 10.7% in 33 us, level 5 9.3% in 67 us, level 6 8.9% in 99 us.
    """
    frame = {"write_content_size": False, "write_dict_id": False}
    if level > LEVEL:
        return zstandard.ZstdCompressionParameters.from_level(level, **frame)
    return zstandard.ZstdCompressionParameters(
        window_log=21,
        hash_log=17,
        chain_log=16,
        search_log=3,
        min_match=6,
        target_length=0,
        strategy=zstandard.STRATEGY_GREEDY,
        **frame,
    )


@cache
def _delta_parameters(level: int, window_log: int) -> zstandard.ZstdCompressionParameters:
    """How a value is compressed against a base: a window that spans both, and tables no larger than that needs."""
    frame = {"write_content_size": False, "write_dict_id": False}
    if level > DELTA_LEVEL:
        size = 1 << window_log
        made = zstandard.ZstdCompressionParameters.from_level(level, source_size=size, window_log=window_log, **frame)
        if made.hash_log >= min(window_log - 2, _HASH_LOG_MAX):
            return made
    if window_log > _HASH_LOG_MAX:  # an entry for each place would not reach back to the base's beginning
        tables = {"hash_log": min(window_log - 2, _HASH_LOG_MAX), "chain_log": min(window_log - 3, _HASH_LOG_MAX - 1)}
        return zstandard.ZstdCompressionParameters.from_level(LEVEL, window_log=window_log, **tables, **frame)
    tables = {"hash_log": window_log - 1, "chain_log": window_log - 1}
    return zstandard.ZstdCompressionParameters.from_level(level, window_log=window_log, **tables, **frame)


class _Contexts(threading.local):
    """zstd contexts of one thread: they hold state during a call, and cost more to make than to use."""

    def __init__(self, level: int) -> None:
        self.compress = zstandard.ZstdCompressor(level=level, write_content_size=False).compress
        self.compressors: LruCache[bytes, zstandard.ZstdCompressor] = LruCache(MAX_CACHED_COMPRESSORS)
        self.renew_decompressor()

    def renew_decompressor(self) -> None:
        decompressor = zstandard.ZstdDecompressor()
        self.decompress = decompressor.decompress
        self.decompress_chain = decompressor.decompress_content_dict_chain


class ValueCodec:
    """Encodes and decodes values; thread-safe.

    Attributes:
        dictionaries: cached ones for decoding, by checksum.

    Args:
        level: of zstd, when writing.
        tries: bases tried for a value at most; None for all that are offered.
        small: see `DeltaCost`; 0 takes that of the column.
        compares: all bases are tried, at `LEVEL`, and the best one is taken at `level`; else the first small delta.
        guesses: what looks longer than a delta is not encoded to its end.
    """

    def __init__(
        self,
        level: int = LEVEL,
        *,
        tries: int | None = None,
        small: int = 0,
        compares: bool = False,
        guesses: bool = True,
    ) -> None:
        self._level = level
        self._tries = tries
        self._small = small
        self._guesses = guesses
        self._quick = ValueCodec() if compares else None
        self._contexts = _Contexts(level)
        self.dictionaries: LruCache[bytes, bytes] = LruCache(DECODING_BYTES, len)

    def encode(
        self,
        raw: bytes,
        *,
        dictionary: Dictionary | None = None,
        base: tuple[bytes, bytes] | None = None,
        text: bytes = b"",
    ) -> Encoded:
        """Encode a value in the way asked for, or plainer where that does not pay.

        Args:
            raw: the value.
            dictionary: compress with it.
            base: (checksum, raw bytes) of a relative; goes before the dictionary.
            text: with a body: its frame against the body is made, too, if that takes no second pass.
        Returns:
            Delta, dictionary, zstd or stored: the first whose bytes, checksum counted, are fewer than the raw ones.
        """
        if base is not None and 0 < len(base[1]) <= BASE_LIMIT_BYTES:
            delta = self._delta(raw, *base)
            if delta is not None:
                return delta
        elif dictionary is not None:
            encoded = self._with_dictionary(raw, dictionary, None, text)
            if encoded is not None:
                return encoded
        payload = _strip(self._contexts.compress(raw))
        return Encoded(CODEC_ZSTD, b"", payload) if len(payload) < len(raw) else Encoded(CODEC_STORED, b"", raw)

    def choose(
        self,
        column: Column,
        raw: bytes,
        bases: Iterable[Base],
        dictionary: Callable[[], Dictionary | None],
        *,
        saves: Callable[[Base], int] | None = None,
        text: bytes = b"",
        body: tuple[bytes, bytes] | None = None,
        now: tuple[Encoded, Base] | None = None,
    ) -> tuple[Encoded, Base | None]:
        """Decide on delta, dictionary or plain: the one place where that is done, for writes and compaction.

        The plain way is tried only where no delta is small.

        Args:
            column: of the value.
            raw: the value.
            bases: to try, the likeliest first.
            dictionary: gives that of the column; asked if no delta is small.
            saves: bytes that a delta against a base is thought to save elsewhere.
            text: with a body: the text that follows it; if the body is no delta, its frame against that is made, too.
            body: with a text: the body whose record stands directly before it, and the text's frame against it if that
                is made already, else b"".
            now: the delta that is stored, with its base: another one is looked for only if it is not small, or if all
                bases are compared.
        Returns:
            How it is encoded, and the base that it is a delta against, or None.
        """
        small, cost_bytes = DELTA_COST.get(column, DELTA_COST[BODY])
        small = self._small or small
        best, chosen = now if now is not None and self._quick is None else (None, None)
        if best is not None and len(best.payload) * small < len(raw):
            return best, chosen
        weighed = text if may_be_base(raw, text) else b""
        # Body and text together are smaller without a base, mostly, if the delta is not small.
        guessed = len(raw) // small if weighed and self._guesses and self._quick is None else None
        for base in islice(bases, self._tries):
            delta = (self._quick or self)._delta(raw, base.name, base.raw, guessed)
            if delta is not None and (best is None or len(delta.payload) < len(best.payload)):
                best, chosen = delta, base
                if self._quick is None and len(best.payload) * small < len(raw):
                    return best, chosen
        if chosen is not None and self._quick is not None:
            best = self._delta(raw, chosen.name, chosen.raw) or best
            if best is not None and len(best.payload) * small < len(raw):
                return best, chosen
        if body is not None and may_be_base(body[0], raw):
            frame = body[1] or self._delta_frame(raw, body[0])
            if len(frame) < (len(raw) if best is None else len(best.payload)):
                best, chosen = Encoded(CODEC_ZSTD_BODY, b"", frame), None
                small, cost_bytes = ON_BODY_COST
                if len(frame) * small < len(raw):
                    return best, None
        if best is None:
            made = self.encode(raw, dictionary=dictionary(), text=text)
        else:
            limit = len(best.payload) + cost_bytes - (saves(chosen) if saves and chosen else 0)
            # The text of a delta is a delta, too, of as large a part of its bytes, or a larger one.
            limit += len(best.payload) * len(weighed) // len(raw)
            plain = self.encode_within(raw, dictionary(), limit, weighed)
            if plain is None:
                return best, chosen
            made = plain
        if weighed and not made.text:
            made = made._replace(text=self._delta_frame(weighed, raw))
        return made, None

    def choose_many(self, values: Sequence[NewValue]) -> list[Chosen]:
        """`choose` for the values of a group, in order.

        Native code does it in one call without the GIL, with as many threads as there are processors.
        """
        chosen: list[Chosen] = []
        for value, made in zip(values, self.choose_natively(values), strict=True):
            bases = [chosen[base][2] if isinstance(base, int) else base for base in value.bases]
            if made is None:
                dictionary = repeat(value.dictionary).__next__
                encoded, base = self.choose(
                    value.column, value.raw, bases, dictionary, text=value.text, body=value.body
                )
            else:
                codec, number, frame, text = made
                base = bases[number] if codec == CODEC_ZSTD_DELTA else None
                related = b"" if base is None else base.name
                if codec == CODEC_ZSTD_DICTIONARY and value.dictionary is not None:
                    related = value.dictionary.checksum
                encoded = Encoded(codec, related, frame if codec else value.raw, text)
            chosen.append((encoded, base, base or Base(value.name, value.raw, b"", _NOWHERE)))
        return chosen

    def choose_natively(self, values: Sequence[NewValue]) -> Sequence[tuple[int, int, bytes, bytes] | None]:
        """Codec, number of the base, frame and text frame of each value; None where the reference has to choose."""
        if compiled.WHY_NOT or self._level != LEVEL or self._quick or self._tries or self._small or not self._guesses:
            return [None] * len(values)
        tasks = []
        for column, raw, _, bases, dictionary, text, body in values:
            small, cost_bytes = ON_BODY_COST if body else DELTA_COST.get(column, DELTA_COST[BODY])
            held = [base if isinstance(base, int) else base.raw for base in bases]
            indexed = None if dictionary is None else dictionary.indexed
            frame = b"" if body is None else body[1]
            tasks.append(
                (raw, held, indexed, text if text and may_be_base(raw, text) else b"", frame, small, cost_bytes)
            )
        try:
            return compiled.docstore_native.encode_values(tasks, min(processors(), MAX_THREADS))
        except RuntimeError as error:
            import logging

            logging.getLogger(__name__).error(
                "%s; the reference encodes %d values: please report it", error, len(values)
            )
            return [None] * len(values)

    def encode_within(self, raw: bytes, dictionary: Dictionary | None, limit: int, text: bytes = b"") -> Encoded | None:
        """Encode a value as `encode` does without a base, but only where its payload may be of use.

        If the codec guesses, a hopeless one is not made to its end: native code looks from an eighth of it on how long
        it will be.  That is right but for payloads near the limit.

        Args:
            raw: the value.
            dictionary: compress with it.
            limit: more bytes, with those of the text's frame, are of no use.
            text: see `encode`.
        Returns:
            None where the payload would be longer.
        """
        guessed = limit if self._guesses else None
        encoded = None if dictionary is None else self._with_dictionary(raw, dictionary, guessed, text)
        if encoded is None:
            encoded = self.encode(raw)
        return encoded if 0 < len(encoded.payload) <= limit - len(encoded.text) else None

    def decode(self, record: Record, resolve: Resolve | None = None) -> bytes:
        """The raw value of a record.

        Args:
            record: as read from Bodies.
            resolve: gives the dictionary or base that the record names; needed only for those codecs.
        Raises:
            CorruptionError: the payload is no sound frame, or not of the record's raw length.
        """
        codec = record.codec
        payload = record.payload
        raw_bytes = record.raw_bytes
        if codec == CODEC_STORED:
            raw = payload
        else:
            if not payload or payload[0] & _CONTENT_SIZE_BITS:
                raise _damaged(record, "a frame without content size", payload[:4].hex() or "nothing")
            if codec == CODEC_ZSTD:
                before = b""
            elif codec == CODEC_ZSTD_DICTIONARY:
                before = self.dictionary(record.related, resolve)
            elif codec in (CODEC_ZSTD_DELTA, CODEC_ZSTD_BODY):
                before = _related(record.related, resolve)
            else:
                raise _damaged(record, "a codec of docs/format.md", f"codec {codec}")
            made = None if compiled.WHY_NOT else compiled.docstore_native.decode_frame(payload, raw_bytes, before)
            raw = self._decode_frame(record, before) if made is None else made
        if len(raw) != raw_bytes:
            raise _damaged(record, f"{raw_bytes} raw bytes", f"{len(raw)}")
        return raw

    def _decode_frame(self, record: Record, before: bytes) -> bytes:
        """The value of a frame that copies from a dictionary or base, or from nothing: what native code is to give.

        A context for this base alone would cost as much as the decoding.  So the base goes through the thread's one
        context as a frame that holds it as it is, and zstd lets the frame after it copy from that.
        """
        frame = _sized_frame(record.payload, record.raw_bytes)
        try:
            if not before:
                return self._contexts.decompress(frame)
            return self._contexts.decompress_chain([_stored_frame(before), frame])
        except (zstandard.ZstdError, ValueError) as error:  # ValueError: a frame too short to have a header
            self._contexts.renew_decompressor()  # the one that failed may still refer to this base
            raise _damaged(record, f"{record.raw_bytes} raw bytes", str(error)) from error

    def _delta(self, raw: bytes, name: bytes, base: bytes, limit: int | None = None) -> Encoded | None:
        """None where a delta does not pay, or would be clearly longer than the limit."""
        if not 0 < len(base) <= BASE_LIMIT_BYTES:
            return None
        if len(name) != RECORD_RELATED_BYTES:
            raise InvalidArgument(f"a base is named by {RECORD_RELATED_BYTES} bytes, not {len(name)}")
        payload = self._delta_frame(raw, base, limit)
        is_used = 0 < len(payload) < len(raw) - RECORD_RELATED_BYTES
        return Encoded(CODEC_ZSTD_DELTA, name, payload) if is_used else None

    def _delta_frame(self, raw: bytes, base: bytes, limit: int | None = None) -> bytes:
        made: bytes | None = None
        if self._level <= LEVEL and not compiled.WHY_NOT:
            made = _natively(compiled.docstore_native.delta_frame, raw, base, limit)
        return _strip(self._delta_compressor(base, len(raw)).compress(raw)) if made is None else made

    def _with_dictionary(
        self, raw: bytes, dictionary: Dictionary, limit: int | None, text: bytes = b""
    ) -> Encoded | None:
        """None where the dictionary does not pay; no payload where that is hopeless to be within the limit."""
        indexed = dictionary.indexed if self._level <= LEVEL else None
        payload: bytes | None = None
        text_frame = b""
        if indexed is not None and text and may_be_base(raw, text):
            payload, text_frame = _natively(indexed.frames, raw, text, limit) or (None, b"")
        elif indexed is not None:
            payload = _natively(indexed.frame, raw, limit)
        if payload is None:
            payload = _strip(self._dictionary_compressor(dictionary).compress(raw))
        if len(payload) + RECORD_RELATED_BYTES < len(raw):
            return Encoded(CODEC_ZSTD_DICTIONARY, dictionary.checksum, payload, text_frame)
        return None

    def _delta_compressor(self, base: bytes, raw_bytes: int) -> zstandard.ZstdCompressor:
        # The window spans base and value, so that the last byte can still be a copy of the first.
        window_log = min(_WINDOW_LOG_MAX, max(_WINDOW_LOG_MIN, (len(base) + raw_bytes).bit_length()))
        parameters = _delta_parameters(max(self._level, DELTA_LEVEL), window_log)
        raw_dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        return zstandard.ZstdCompressor(compression_params=parameters, dict_data=raw_dictionary)

    def _dictionary_compressor(self, dictionary: Dictionary) -> zstandard.ZstdCompressor:
        held = self._contexts.compressors
        compressor = held.get(dictionary.checksum)
        if compressor is None:
            parameters = _dictionary_parameters(self._level)
            compressor = zstandard.ZstdCompressor(compression_params=parameters, dict_data=dictionary.prepared)
            held.put(dictionary.checksum, compressor)
        return compressor

    def dictionary(self, checksum: bytes, resolve: Resolve | None) -> bytes:
        """The content of a dictionary."""
        held = self.dictionaries.get(checksum)
        if held is None:
            held = _related(checksum, resolve)
            self.dictionaries.put(checksum, held)
        return held


def _natively(make: Callable[..., Made], raw: bytes, *arguments: Any) -> Made | None:
    """What native code makes of a value, several times faster; None if the reference has to make it.

    Frames of the two differ in their bytes, not in what they decode to.
    """
    try:
        return make(raw, *arguments)
    except RuntimeError as error:
        import logging  # loaded late: a cold read logs nothing

        logging.getLogger(__name__).error("%s; the reference encodes these %d bytes: please report it", error, len(raw))
        return None


def may_be_base(body: bytes, text: bytes) -> bool:
    """Whether a text may be a delta of its own body."""
    return len(body) <= min(LONGEST_OWN_BODY_BYTES, MOST_OWN_BODY_SHARE * len(text))


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pack(raw: bytes, level: int = PACK_LEVEL) -> bytes:
    """One whole zstd frame, for files that are written once and read rarely."""
    return zstandard.ZstdCompressor(level=level).compress(raw)


def unpack(frame: bytes, raw_bytes: int) -> bytes:
    """The content of a frame of `pack`.

    Raises:
        CorruptionError: it is no sound frame of that length.
    """
    try:
        raw = zstandard.ZstdDecompressor().decompress(frame, raw_bytes)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"a zstd frame does not decode: {error}") from error
    if len(raw) != raw_bytes:
        raise CorruptionError("a zstd frame has another length", expected=str(raw_bytes), found=str(len(raw)))
    return raw


def _related(checksum: bytes, resolve: Resolve | None) -> bytes:
    """The dictionary or base of that checksum."""
    if resolve is None:
        raise InvalidArgument("this record needs a dictionary or base: pass `resolve`")
    return resolve(checksum)


def _stored_frame(raw: bytes) -> bytes:
    """A zstd frame of blocks that hold raw bytes as they are."""
    parts = [_ONE_SEGMENT_SIZE_IN_FOUR_BYTES, len(raw).to_bytes(4, "little")]
    for start in range(0, len(raw), _BLOCK_BYTES):
        block = raw[start : start + _BLOCK_BYTES]
        is_last = start + _BLOCK_BYTES >= len(raw)
        parts += ((len(block) << 3 | is_last).to_bytes(3, "little"), block)
    return b"".join(parts)


def _sized_frame(payload: bytes, raw_bytes: int) -> bytes:
    """The whole frame of a payload, with magic and content size; zstd then decodes straight into a value that long."""
    descriptor = bytes((payload[0] | _SIZE_IN_FOUR_BYTES,))
    return b"".join((ZSTD_FRAME_MAGIC, descriptor, payload[1:2], raw_bytes.to_bytes(4, "little"), payload[2:]))


def _strip(frame: bytes) -> bytes:
    return frame[len(ZSTD_FRAME_MAGIC) :]


def _damaged(record: Record, expected: str, found: str) -> CorruptionError:
    where = (
        f"{record.family}:{record.qualifier.decode(errors='replace')} of row {record.row_key.decode(errors='replace')}"
    )
    return CorruptionError("a value cannot be decoded", path=where, expected=expected, found=found)
