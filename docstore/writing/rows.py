"""Pages as rows: the reads that the writer and the detector make, over committed rows and the group in flight.

Knows the table, the columns of `capture` and where values lie; gives the detector its `Pages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docstore.dedup.checksum import decides_alone
from docstore.dedup.comparable import bodies_compare
from docstore.dedup.detector import StoredPage
from docstore.dedup.doubt import TitledText
from docstore.model.capture import (
    BODY,
    CHECKSUM,
    MAIN,
    REASON_NOT_MODIFIED,
    SKETCH,
    STATUS,
    STORED_CONFIRMED,
    TEXT_CHECKSUM,
    TITLE,
    VERDICT,
    VISIT,
    decode_sketch,
    decode_verdict,
    encode_verdict,
)
from docstore.model.errors import CorruptionError
from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Previous, ReadSpec, RowMutations, SetCell
from docstore.reading.documents import DocumentReader
from docstore.storage.envelope import envelope_raw_bytes, is_ref
from docstore.storage.port import Values
from docstore.storage.sharing import BODY_FAMILY, ENVELOPE, LARGEST_BASE_BYTES, TEXT, Base, SharedBodies, body_name
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.recent import PAGES_HELD, SHARED_ROWS_HELD, Recent, RecentPage
from docstore.writing.versions import OwnRow, OwnVersion, PendingPage, TextBase

_COLUMNS_OF_A_VERSION = ("dedup", "page")
_JUDGED_COLUMNS = ("dedup", "page", "text")
_FAMILIES_OF_RECORDS = ("http", "page", "text")
"""Those with values too long for a cell, but for a verdict that names very long URLs."""
_FAMILIES_OF_A_VERSION = ("page", "http", "text", "dedup")


_NOTHING = OwnRow(None, b"", None)


class PageRows:
    """Reads of page rows.  Not thread-safe: the sequencer owns it, as it does the index.

    Attributes:
        in_doubt: since the group in flight was begun, a version was asked for of which only its commit can tell whether
            a policy hides it.
        hides: whether a policy may hide versions at all.
        turn: of the page that is judged: behind the pages in flight that were asked for since this was set to 0.

    Args:
        table: of pages.
        placement: where values lie.
        sharing: bodies that others lean on.
        remembers: cache the last live versions, as far as the policies let them live until they are written
            again.  Whoever asks for that calls `forget` before the next read, once anybody else may have committed.
    """

    def __init__(self, table: Table, placement: Values, sharing: SharedBodies, *, remembers: bool = False) -> None:
        self._table = table
        self._placement = placement
        self._reader = DocumentReader(table, placement)
        self._sharing = sharing
        self._group_texts: dict[bytes, TextBase | None] = {}
        self._unusable: set[PagePointer] = set()
        """Live versions that were found to be unreadable."""
        self._pending: dict[PagePointer, PendingPage] = {}
        self._pending_titled: dict[PagePointer, TitledText] = {}
        self._turns: dict[PagePointer, int] = {}
        self.turn = 0
        self._pending_rows: set[bytes] = set()
        self.in_doubt = False
        self.hides = table.collects(_FAMILIES_OF_A_VERSION)
        self._lasting: set[PagePointer] = set()
        policies = [table.policy(family) for family in _FAMILIES_OF_A_VERSION]
        ages = any(policy.max_age_seconds is not None for policy in policies)
        self._remembers = remembers
        self._recent = Recent(
            pages=PAGES_HELD if remembers and not ages else 0, shared=SHARED_ROWS_HELD if remembers else 0
        )
        self._remembers_writes = remembers and all(policy.max_versions is None for policy in policies)
        """A capture older than the ones that are stored may be hidden as soon as it is written."""
        self._absent: set[bytes] = set()

    # --- the detector's view

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """The live version at that row and time; None when there is none that can be read.

        A version whose text was deleted, or has expired, is one without text: it cannot be compared.  None too, and
        `in_doubt`, where a policy may hide it as soon as the group in flight is committed.
        """
        if self.hides and pointer.row_key in self._pending_rows and pointer not in self._lasting:
            self.in_doubt = True
            return None
        pending = self._pending.get(pointer)
        if pending is not None:
            self.turn = max(self.turn, self._turns[pointer] + 1)
            return pending.page
        recent = self._recent.page(pointer)
        if recent is not None:
            return recent.page
        if pointer in self._unusable:
            return None
        spec = ReadSpec(families=_JUDGED_COLUMNS, start=pointer.timestamp, end=pointer.timestamp + 1)
        columns = {(cell.family, cell.qualifier): cell.value for cell in self._table.read_row(pointer.row_key, spec)}
        if BODY not in columns or CHECKSUM not in columns:
            return None
        text_checksum = self._value(columns, TEXT_CHECKSUM) if MAIN in columns else b""
        page = StoredPage(self._value(columns, CHECKSUM), text_checksum, *decode_sketch(self._value(columns, SKETCH)))
        self._recent.put_page(pointer, RecentPage(page))
        return page

    def title(self, pointer: PagePointer) -> str:
        """Its shown title."""
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.title
        recent = self._recent.page(pointer)
        if recent is not None and recent.title is not None:
            return recent.title
        title = (self._column(pointer, TITLE) or b"").decode("utf-8", "surrogatepass")
        if recent is not None:
            recent.title = title
        return title

    def titled(self, pointer: PagePointer) -> TitledText:
        """Its title and text; a page of a template is compared with by many, its words are found once."""
        recent = None if pointer in self._pending else self._recent.page(pointer)
        found = self._pending_titled.get(pointer) if recent is None else recent.titled
        if found is None:
            found = TitledText(self.title(pointer), lambda: self.text(pointer) or "")
            if recent is not None:
                recent.titled = found
            elif pointer in self._pending:
                self._pending_titled[pointer] = found
        return found

    def status(self, pointer: PagePointer) -> int:
        """Its HTTP status."""
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.status
        recent = self._recent.page(pointer)
        if recent is not None and recent.status is not None:
            return recent.status
        status = int(self._column(pointer, STATUS) or b"0")
        if recent is not None:
            recent.status = status
        return status

    def text(self, pointer: PagePointer) -> str | None:
        """Its stored text; None where it cannot be read."""
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.text.decode("utf-8", "surrogatepass")
        text = self._column(pointer, MAIN)
        return None if text is None else text.decode("utf-8", "surrogatepass")

    def body(self, pointer: PagePointer) -> bytes | None:
        """Its stored body; None where it cannot be read."""
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.body
        return self._column(pointer, BODY)

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether its body can be read."""
        if pointer in self._pending:
            return True
        envelope = self._body_envelope(pointer)
        if envelope is not None and not is_ref(envelope):
            return True
        if envelope is not None and self._remembers and self.base_at(envelope, pointer) is not None:
            return True  # and held for whoever leans on it next
        return self.body(pointer) is not None

    # --- the writer's view

    def prepare(self, row_keys: Sequence[bytes]) -> None:
        """Say which rows are written next: those that are not there yet, most of a crawl, are found out together."""
        self._absent = self._table.absent_rows(row_keys) if self._remembers and len(row_keys) > 1 else set()

    def own(self, row_key: bytes, timestamp: int) -> OwnRow:
        """What the row holds at and before a timestamp; the row must not be in flight."""
        if row_key in self._absent:
            return _NOTHING
        spec = ReadSpec(families=_COLUMNS_OF_A_VERSION, end=timestamp + 1, versions=2)
        cells = self._table.read_row(row_key, spec)
        # What a policy hides is there all the same: a write at its timestamp would take its place.
        stored = self._table.stored_row(row_key, spec._replace(start=timestamp)) if self.hides else cells
        here = {(cell.family, cell.qualifier): cell.value for cell in stored if cell.timestamp == timestamp}
        if not cells and not here:
            return _NOTHING
        taken = self._value(here, CHECKSUM) if CHECKSUM in here or BODY in here else None
        verdict = self._read(row_key, Cell(*VERDICT, timestamp, here[VERDICT])) if VERDICT in here else None
        return OwnRow(taken, verdict or b"", self._version_before(row_key, cells, timestamp))

    def stands(self, pointer: PagePointer) -> bool:
        """Whether a version is live and what its URL shows today: nothing newer there has other bytes or another status
        class.  The row must not be in flight."""
        page = self.page(pointer)
        newest = None if page is None else self._table.newest(pointer.row_key, *BODY)
        if page is None or newest is None:
            return False
        if newest.timestamp == pointer.timestamp:
            return True
        shown = PagePointer(newest.timestamp, pointer.row_key)
        newer = self.page(shown)
        return (
            newer is not None
            and newer.checksum == page.checksum
            and bodies_compare(self.status(pointer), self.status(shown))
        )

    def same_body(self, body: bytes, checksum: bytes, pointer: PagePointer, stored_checksum: bytes) -> bool:
        """Whether a body is the one stored at a pointer.

        Bytes are compared where the checksum is too weak to decide alone, or not known any more.  Where they cannot be
        read a weak checksum has to do.
        """
        if stored_checksum and checksum != stored_checksum:
            return False
        if stored_checksum and decides_alone(checksum):
            return True
        stored = self.body(pointer)
        return bool(stored_checksum) if stored is None else stored == body

    def unreadable_cells(self, row_key: bytes, timestamps: Iterable[int]) -> list[Cell]:
        """Cells of a row's versions whose values cannot be read."""
        found = []
        for timestamp in timestamps:
            spec = ReadSpec(families=_FAMILIES_OF_RECORDS, start=timestamp, end=timestamp + 1)
            for cell in self._table.stored_row(row_key, spec):
                try:
                    self._placement.verify(cell.value)
                except CorruptionError as error:
                    place = Place(row_key, cell.family, cell.qualifier, cell.timestamp)
                    self._placement.unreadable.note(error, place)
                    found.append(cell)
        return found

    def holders(self, row_key: bytes, damaged: Cell) -> list[int]:
        """Timestamps at which a row's column holds a value."""
        spec = ReadSpec(families=(damaged.family,), qualifier_prefix=damaged.qualifier)
        cells = self._table.stored_row(row_key, spec)
        return [cell.timestamp for cell in cells if cell[:2] == damaged[:2] and cell.value == damaged.value]

    def anchor(self, row_key: bytes, source: bytes) -> Cell | None:
        """What a page says of another, newest: its URL is the qualifier; committed ones only."""
        return self._table.newest(row_key, ANCHOR_FAMILY, source)

    def has_visit(self, pointer: PagePointer) -> bool:
        """Whether a visit that found nothing new (304) is noted at that row and time."""
        return bool(self._column(pointer, VISIT))

    def confirmations(self, row_key: bytes, version: OwnVersion, timestamp: int) -> list[SetCell]:
        """The cells by which a visit confirms a version's text: the same envelopes at the visit's time.

        Without them a capture that comes in late, between the version and the visit, would lend the visit its text.
        Where the last sweep put the version goes with it.
        """
        at = version.text_timestamp
        cells = self._table.read_row(row_key, ReadSpec(families=("dedup", "text"), start=at, end=at + 1))
        return [
            SetCell(cell.family, cell.qualifier, timestamp, cell.value)
            for cell in cells
            if (cell.family, cell.qualifier) not in (CHECKSUM, VERDICT)
        ]

    def visit_cells(self, row_key: bytes, version: OwnVersion, timestamp: int) -> list[SetCell]:
        """The cells by which a visit without a body (304) stands for the version that it confirms.

        That is how the version was fetched, its text, its fingerprints and its verdict, marked as not judged again.
        None where the version has no verdict, as a body set as a plain cell, or one that cannot be read.
        """
        at = version.timestamp
        spec = ReadSpec(families=("dedup", "http", "page", "text"), start=at, end=at + 1)
        columns = {(cell.family, cell.qualifier): cell.value for cell in self._table.read_row(row_key, spec)}
        if VERDICT not in columns or CHECKSUM not in columns:
            return []
        columns.pop(VISIT, None)
        stored = self._read(row_key, Cell(*VERDICT, at, columns[VERDICT]))
        if stored is None:
            return []
        verdict = decode_verdict(stored)._replace(
            reason=REASON_NOT_MODIFIED, previous=Previous.SAME_BYTES, previous_similarity=1.0, stored=STORED_CONFIRMED
        )
        columns[VERDICT] = self._placement.place(row_key, VERDICT, timestamp, encode_verdict(verdict))
        return [SetCell(*column, timestamp, value) for column, value in columns.items()]

    def own_text(self, row_key: bytes, version: OwnVersion) -> str | None:
        """The text of a version that `own` gave; None where it cannot be read."""
        return self.text(PagePointer(version.text_timestamp, row_key))

    def base(self, pointer: PagePointer) -> Base | None:
        """What a page like this one can lean on: its body, or the base that its body leans on.

        None when the version is gone, or its body too small to be worth it, or too large, or cannot be read.
        """
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.base
        envelope = self._body_envelope(pointer)
        return None if envelope is None else self.base_at(envelope, pointer)

    def shared_cells(self, name: bytes) -> dict[bytes, bytes]:
        """`SharedBodies.cells`, from the cache where it has them; not to be changed."""
        cells = self._recent.shared.get(name)
        if cells is None:
            cells = self._sharing.cells_of_likely_absent(name)
            self._recent.shared.put(name, cells)
        return cells

    def can_read(self, base: Base, envelope: bytes) -> bool:
        """Whether the record can be read that a base's row names: mostly the one that the base was read from."""
        if envelope != base.envelope:
            try:
                self._placement.verify(envelope)
            except CorruptionError as error:
                self._placement.unreadable.note(error, Place(base.pointer.row_key, *BODY, base.pointer.timestamp))
                return False
        return True

    def base_at(self, envelope: bytes, pointer: PagePointer) -> Base | None:
        """The same, of a body whose envelope is known."""
        cached = self._recent.bases.get(envelope)
        if cached is not None:
            return cached
        if not is_ref(envelope) or envelope_raw_bytes(envelope) > LARGEST_BASE_BYTES:
            return None
        place = Place(pointer.row_key, *BODY, pointer.timestamp)
        base = self._placement.unreadable.attempt(lambda: self._read_base(envelope, pointer), place)
        if base is not None:
            self._recent.bases.put(envelope, base)
        return base

    def _read_base(self, envelope: bytes, pointer: PagePointer) -> Base | None:
        raw, leans_on = self._placement.fetch_leaning(envelope)
        if not leans_on:
            return Base(body_name(raw), raw, envelope, pointer)
        inner = self.shared_cells(leans_on).get(ENVELOPE)
        if inner is None or envelope_raw_bytes(inner) > LARGEST_BASE_BYTES:
            return None
        return Base(leans_on, self._placement.fetch(inner), inner, pointer)

    def text_base(self, base: Base) -> TextBase | None:
        """What the text of a page can lean on whose body leans on a base.

        None where that has no text of its own, or none that can be read.

        It is the text that the base's row names; while that names none, the text of the page that holds the base.
        """
        known = self._recent.texts.get(base.name)
        if known is not None:
            return known
        if base.name in self._group_texts:
            return self._group_texts[base.name]
        named = self.shared_cells(base.name).get(TEXT)
        place = Place(base.pointer.row_key, *MAIN, base.pointer.timestamp)
        attempt = self._placement.unreadable.attempt
        if named is not None:
            raw = attempt(lambda: self._placement.fetch(named), place)
            if raw is None:
                return None
            found = TextBase(raw, named, True)
            self._recent.texts.put(base.name, found)
            return found
        text = self._group_texts[base.name] = attempt(lambda: self._text_of_holder(base), place)
        return text

    def _text_of_holder(self, base: Base) -> TextBase | None:
        if not self._sharing.takes_texts:
            return None
        pending = self._pending.get(base.pointer)
        envelope = base.text
        if pending is None:
            if self._body_envelope(base.pointer) != base.envelope:
                return None  # the page leans on the base itself
            recent = self._recent.page(base.pointer)
            known = None if recent is None else recent.text
            envelope = (self._envelope(base.pointer, MAIN) or b"") if known is None else known
        if not envelope or not is_ref(envelope):
            return None
        if pending is not None and pending.base is base:
            return TextBase(pending.text, envelope, False)
        held = self._recent.plain.get(envelope)
        if held is not None:
            return TextBase(held, envelope, False)
        raw, leans_on = self._placement.fetch_leaning(envelope)
        return None if leans_on else TextBase(raw, envelope, False)

    def name_text(self, name: bytes, text: TextBase) -> None:
        """The base's row names this text, from this group on."""
        self._group_texts[name] = text._replace(named=True)

    def _body_envelope(self, pointer: PagePointer) -> bytes | None:
        recent = self._recent.page(pointer)
        if recent is not None and recent.envelope is not None:
            return recent.envelope
        envelope = self._envelope(pointer, BODY)
        if recent is not None:
            recent.envelope = envelope
        return envelope

    # --- the group in flight

    def add_pending(self, pointer: PagePointer, pending: PendingPage | None) -> None:
        """Let later pages of the group see this one; None marks the row as touched without a page to judge against."""
        self._pending_rows.add(pointer.row_key)
        if pending is not None:
            self._pending[pointer] = pending
            self._turns.setdefault(pointer, self.turn)
            if self.hides and self._table.keeps_newest(pointer.row_key, pointer.timestamp, _FAMILIES_OF_A_VERSION):
                self._lasting.add(pointer)

    def in_flight(self, row_key: bytes) -> bool:
        """Whether the group in flight writes this row."""
        return row_key in self._pending_rows

    def end_group(self, *, committed: bool, shared: Iterable[RowMutations] = ()) -> None:
        """The group in flight is committed, or has failed: its pages are stored ones now, or nothing.

        Args:
            committed: which of the two.
            shared: what it wrote to rows of shared bodies: set cells alone.
        """
        recent = self._recent
        if committed:
            for _, name, mutations in shared:
                before = recent.shared.get(name)
                if before is not None:
                    cells = (cell for cell in mutations if isinstance(cell, SetCell) and cell.family == BODY_FAMILY)
                    recent.shared.put(name, before | {cell.qualifier: cell.value for cell in cells})
            for name, text_base in self._group_texts.items():
                if text_base is not None and text_base.named:
                    recent.texts.put(name, text_base)
        self._absent -= self._pending_rows
        recent.forget_rows(self._pending_rows)
        if committed and self._remembers_writes:
            for pointer, page in self._pending.items():
                stored, title, status, raw_text, _, envelope, base = page
                text = None
                if base is not None:
                    if base.pointer == pointer:
                        text = base.text
                        if len(raw_text) > INLINE_LIMIT_BYTES:
                            recent.plain.put(text, raw_text)
                    if envelope not in recent.bases:
                        recent.bases.put(envelope, base)
                titled = self._pending_titled.get(pointer)
                recent.put_page(pointer, RecentPage(stored, title, status, envelope, text, titled))
        if self._unusable:
            self._unusable = {pointer for pointer in self._unusable if pointer.row_key not in self._pending_rows}
        self._pending.clear()
        self._pending_titled.clear()
        self._turns.clear()
        self._group_texts.clear()
        self._pending_rows.clear()
        self._lasting.clear()
        self.in_doubt = False

    def forget_row(self, row_key: bytes) -> None:
        """A row was deleted."""
        self._recent.forget_rows((row_key,))

    def forget(self) -> None:
        """Others may have committed: read everything anew."""
        self._absent.clear()
        self._unusable.clear()
        self._recent.forget()

    # --- pieces

    def _version_before(self, row_key: bytes, cells: list[Cell], timestamp: int) -> OwnVersion | None:
        body = next((c for c in cells if (c.family, c.qualifier) == BODY and c.timestamp < timestamp), None)
        if body is None:
            return None
        if any(body.timestamp < cell.timestamp < timestamp for cell in cells):
            # Captures without a body, rejected ones, are newer: look again from the body's time on.
            spec = ReadSpec(families=_COLUMNS_OF_A_VERSION, end=body.timestamp + 1, versions=1)
            cells = self._table.read_row(row_key, spec)
        checksum = text_checksum = b""
        text_timestamp = 0
        for cell in cells:  # newest first within a column
            if cell.timestamp > body.timestamp:
                continue
            column = (cell.family, cell.qualifier)
            if column == CHECKSUM and not checksum:
                checksum = self._placement.fetch(cell.value)
            elif column == TEXT_CHECKSUM and not text_timestamp:
                text_checksum, text_timestamp = self._placement.fetch(cell.value), cell.timestamp
        return OwnVersion(body.timestamp, body.value, checksum, text_checksum, text_timestamp)

    def _value(self, columns: dict[tuple[str, bytes], bytes], column: tuple[str, bytes]) -> bytes:
        envelope = columns.get(column)
        return b"" if envelope is None else self._placement.fetch(envelope)

    def _column(self, pointer: PagePointer, column: tuple[str, bytes]) -> bytes | None:
        """A value of a version, b"" where it has none; None where it cannot be read: no more is asked of it then."""
        value = self._reader.value(pointer.row_key, column, pointer.timestamp)
        if value is None:
            self._unusable.add(pointer)
            self._recent.forget_rows((pointer.row_key,))
        return value

    def _read(self, row_key: bytes, cell: Cell) -> bytes | None:
        """The value of a cell, as long as the lock is held that keeps it where it is; None where it cannot be read."""
        place = Place(row_key, cell.family, cell.qualifier, cell.timestamp)
        return self._placement.unreadable.attempt(lambda: self._placement.fetch(cell.value), place)

    def _envelope(self, pointer: PagePointer, column: tuple[str, bytes]) -> bytes | None:
        spec = ReadSpec(
            families=(column[0],), qualifier_prefix=column[1], start=pointer.timestamp, end=pointer.timestamp + 1
        )
        cells = self._table.read_row(pointer.row_key, spec)
        return next((cell.value for cell in cells if cell.qualifier == column[1]), None)
