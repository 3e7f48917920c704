"""Changes that need the whole write side: duplicates put away after a sweep, and repairs.

    DuplicateApplier    a stored duplicate gets the state that the write policy would have given it
    Repairer            values that cannot be read, taken from captures of the same bytes

A duplicate is judged again under the writers' lock, against its canonical page alone and by the rules of a write: what
has changed since the sweep counts.  One plan has a group of them, so a stop leaves each as it was, or as it is to be.
The next compaction frees the space.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from docstore.compiled import docstore_native
from docstore.model import capture
from docstore.model.capture import PagePointer
from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
    REASON_NOT_MODIFIED,
)
from docstore.model.keys import same_site
from docstore.model.types import Mutation, Page, Policy, RowMutations
from docstore.reading.documents import DocumentReader
from docstore.storage.bases import Base, base_row, value_name
from docstore.storage.captures import CaptureRecord, refs_of, sound_records
from docstore.storage.engine import PackedRows, Plan
from docstore.storage.table import PAGES
from docstore.storage.values import INLINE_TAG, encode_inline, is_absent, is_ref
from docstore.storage.writes import Prepared
from docstore.writing.maintenance import MADE_AGAIN
from docstore.writing.policy import Facts, how_stored
from docstore.writing.writer import WriteSide

_REJECTED = (capture.CHECKSUM, capture.CRAWL)
"""Columns that a capture keeps if it is rejected after its write, beside its validators."""


class Applied(NamedTuple):
    """What became of a duplicate.

    Attributes:
        kind: exact, same_text or near, if it was changed; else "".
        reason: why it was not: `changed` (gone, or no duplicate any more), `kind` (not asked for), `canonical` (that
            page is not what its URL shows, or has no body), `needed` (others were rejected for it), `done`; else "".
        freed_bytes: of records that nothing needs any more.
    """

    kind: str = ""
    reason: str = ""
    freed_bytes: int = 0


class DuplicateApplier:
    """Changes stored duplicates; the caller says which, and of which pages."""

    def __init__(self, side: WriteSide) -> None:
        self._side = side
        self._table = side.table
        self._values = side.backend.values
        self._base_rows = side.backend.base_rows
        self._view = side.view
        self._reader = DocumentReader(side.table, side.backend.values)

    def apply(
        self,
        pairs: Sequence[tuple[PagePointer, PagePointer]],
        policy: Policy,
        kinds: Collection[str],
        needed: Mapping[bytes, Collection[int]],
        *,
        dry_run: bool = False,
    ) -> list[Applied]:
        """Change a group of duplicates in one commit; -> what became of each.

        Args:
            pairs: the first capture of a version, and its canonical page; no page is in both places.
            policy: reference, reject or reject-any.
            kinds: verdicts to act on.
            needed: captures for which others were rejected, times by row key: what shows these bytes is not rejected.
            dry_run: commit nothing; values are placed all the same, so the store is a layer over the one that is meant.
        """
        side = self._side
        with side.committer.lock:
            plan = Plan()
            try:
                applied = [self._apply(pointer, of, policy, kinds, needed, plan) for pointer, of in pairs]
                if dry_run:
                    side.committer.drop_values()
                elif plan.rows:
                    side.committer.commit(plan)
            except BaseException:
                side.committer.drop_values()
                raise
        return applied

    def _apply(
        self,
        pointer: PagePointer,
        of: PagePointer,
        policy: Policy,
        kinds: Collection[str],
        needed: Mapping[bytes, Collection[int]],
        plan: Plan,
    ) -> Applied:
        document = self._reader.live(pointer)
        verdict = None if document is None else document.newest.verdict
        if document is None or not document.body or verdict is None or verdict.reason == REASON_NOT_MODIFIED:
            return Applied(reason="changed")
        if policy is Policy.REFERENCE and verdict.stored == capture.STORED_REFERENCE:
            return Applied(reason="done")
        page = Page(document.url, document.body, document.status or 0, document.newest.headers or (), pointer.timestamp)
        (one,) = self._side.preparer.prepare([page], any_time=True)
        if one.error or one.is_visit or one.row_key != pointer.row_key:
            return Applied(reason="changed")
        judged = self._view.pages.compare_with(of, page.body, one.analysis, status=page.status)
        if judged.kind not in kinds:
            return Applied(reason="changed" if judged.kind is VerdictKind.NEW else "kind")
        checksum = one.analysis.body_checksum
        stored = how_stored(self._facts(pointer.row_key, of), policy)
        if stored == capture.STORED_BODY:
            return Applied(reason="canonical")
        first = self._table.record(pointer.row_key, pointer.timestamp)
        if first is None or first.kind != CAPTURE_STORED:
            return Applied(reason="changed")
        visits = self._visits(pointer)
        rejects = stored == capture.STORED_REJECTED
        pointers = (PagePointer(at, pointer.row_key) for at in needed.get(pointer.row_key, ()))
        shown = {page.checksum for page in map(self._view.pages.page, pointers) if page is not None}
        if rejects and checksum in shown:
            return Applied(reason="needed")
        base = None if rejects else self._base(of)
        kept = self._kept_as_bases(first)
        if rejects:
            gone, added = self._reject(pointer.row_key, judged, [first, *visits], plan), set[bytes]()
        else:
            gone, added = self._refer(one, pointer, judged, first, visits, base, plan)
        size = self._values.stored_bytes
        return Applied(str(judged.kind), "", sum(map(size, gone - kept)) - sum(map(size, added)))

    def _facts(self, row_key: bytes, of: PagePointer) -> Facts:
        """The facts of a stored duplicate of a canonical page."""
        body, is_current = self._view.pages.body_cell(of), self._view.pages.is_current(of)
        return Facts(
            is_damaged=False,
            confirms=False,
            is_shown=False,
            wants_body=True,
            names_page=True,
            same_site=same_site(row_key, of.row_key),
            body_is_kept=body is not None and not is_absent(body),
            is_current=is_current,
        )

    def _base(self, of: PagePointer) -> Base | None:
        """The base for the body of a page that resembles another page."""
        cell_value = self._view.pages.body_cell(of)
        return None if cell_value is None else self._view.bases.base_for(cell_value, capture.BODY, of)

    def _visits(self, pointer: PagePointer) -> list[CaptureRecord]:
        """The visits that confirm a stored capture, oldest first."""
        timestamp, row_key = pointer
        found = []
        for one in self._table.captures(row_key):
            if one.timestamp <= timestamp:
                break
            record = self._table.record(row_key, one.timestamp) if one.source == timestamp else None
            if record is not None and record.kind != CAPTURE_STORED:
                found.append(record)
        return found[::-1]

    def _kept_as_bases(self, record: CaptureRecord) -> set[bytes]:
        """Values of a capture that stay if it goes: others may be deltas against them."""
        found = set()
        for column in (capture.BODY, capture.MAIN):
            value = record.columns.get(column, INLINE_TAG)
            if is_ref(value):
                raw, base = self._values.fetch_or_base(value)
                if not base and self._base_rows.cell_value(value_name(raw)) == value:
                    found.add(value)
        return found

    def _reject(
        self, row_key: bytes, judged: capture.StoredVerdict, records: Sequence[CaptureRecord], plan: Plan
    ) -> set[bytes]:
        """Keep checksum, verdict and crawl of each capture, and that a visit was one; -> values that go."""
        first = self._stored_verdict(records[0])
        deletes, postings = self._side.deleter.forget(row_key, records)
        changed: list[Mutation] = list(deletes)
        for record in records:
            columns = {column: record.columns[column] for column in _REJECTED if column in record.columns}
            if record.kind == CAPTURE_NOT_MODIFIED:  # named by what it found: it must not confirm an older page
                found = records[0]
                columns |= {
                    capture.VISIT: record.columns[capture.VISIT],
                    capture.CHECKSUM: found.columns[capture.CHECKSUM],
                }
                changed.append(record._replace(columns=columns, confirms=0).cell())
                continue
            if capture.HEADERS in record.columns:
                kept = capture.validators(self._values.fetch(record.columns[capture.HEADERS]))
                columns |= {capture.HEADERS: encode_inline(kept)} if kept else {}
            verdict = self._stored_verdict(record)
            if verdict is not None and first is not None:
                rejected = verdict._replace(
                    stored=capture.STORED_REJECTED,
                    previous=first.previous,  # the version before is the same for all, now that none is stored
                    previous_similarity=first.previous_similarity,
                )
                columns[capture.VERDICT] = self._verdict(row_key, record.timestamp, rejected, judged)
            changed.append(record._replace(kind=CAPTURE_REJECTED, columns=columns, confirms=0).cell())
        plan.rows += [RowMutations(PAGES, row_key, changed), *postings]
        return {value for record in records for _, value in record.refs}

    def _refer(
        self,
        one: Prepared,
        pointer: PagePointer,
        judged: capture.StoredVerdict,
        first: CaptureRecord,
        visits: Sequence[CaptureRecord],
        base: Base | None,
        plan: Plan,
    ) -> tuple[set[bytes], set[bytes]]:
        """Store body and text by what the canonical page has of them; -> values that go, and that come."""
        row_key, body = pointer.row_key, one.page.body
        verdict = self._stored_verdict(first)
        assert verdict is not None
        referred = verdict._replace(stored=capture.STORED_REFERENCE)
        columns = first.columns | {capture.VERDICT: self._verdict(row_key, first.timestamp, referred, judged)}
        is_base = base is not None and base.raw == body  # the canonical page shares this body, or is a delta against it
        shares = is_base and judged.kind is VerdictKind.EXACT
        is_small = is_base or bool(self._values.fetch_or_base(columns[capture.BODY])[1])  # a delta already
        if base is not None and columns[capture.BODY] != base.cell_value and (shares or not is_small):
            of = PagePointer(judged.of_timestamp, judged.of_row_key)
            page = docstore_native.Judged.by_reference(one, pointer.timestamp, str(judged.kind), of)
            encoder, base_rows = self._side.sequencer.encoder, PackedRows()
            group = encoder.encode([page])
            encoder.pack_bases(group, base_rows)
            plan.rows += base_rows
            columns |= group.cells(0)
        before, after = {value for _, value in first.refs}, {value for _, value in refs_of(columns)}
        added = after - before - ({base.cell_value} if base is not None else set())
        changed: list[Mutation] = [first._replace(columns=columns).cell()]
        for record in visits:
            stored = self._stored_verdict(record)
            if stored is not None:
                value = self._verdict(row_key, record.timestamp, stored, judged)
                changed.append(record._replace(columns=record.columns | {capture.VERDICT: value}).cell())
        plan.rows.append(RowMutations(PAGES, row_key, changed))
        return before - after, added

    def _stored_verdict(self, record: CaptureRecord) -> capture.StoredVerdict | None:
        encoded = record.columns.get(capture.VERDICT)
        return None if encoded is None else capture.decode_verdict(self._values.fetch(encoded))

    def _verdict(
        self, row_key: bytes, timestamp: int, verdict: capture.StoredVerdict, judged: capture.StoredVerdict
    ) -> bytes:
        """The cell value of a verdict that names the canonical page; what it says of the version before stays."""
        named = judged._replace(
            previous=verdict.previous, previous_similarity=verdict.previous_similarity, stored=verdict.stored
        )
        return self._values.append(row_key, capture.VERDICT, timestamp, capture.encode_verdict(named))


class Repaired(NamedTuple):
    """What a repair did.

    Attributes:
        captures: captures with a value that could not be read, and can be now.
        bases: of which the same holds: values that are deltas against them can be read again.
        left: captures with a value that still cannot be read.
    """

    captures: int
    bases: int
    left: int


class Repairer:
    """Repairs values that cannot be read from what else the store holds: no page is fetched.

    A body comes from a capture with the same bytes; text and fingerprints are computed again from the body.
    """

    def __init__(self, side: WriteSide) -> None:
        self._side = side
        self._table = side.table
        self._base_rows = side.backend.base_rows
        self._values = side.backend.values

    def run(self) -> Repaired:
        """Repair what can be repaired; run again, it finds nothing to do."""
        bases = self._repair_bases()
        captures = {
            pointer: record
            for pointer, record in self._stored()
            if any(self._reads(value) is None for _, value in record.refs)
        }
        bodies = self._bodies_of({record.body_identity for record in captures.values()}) if captures else {}
        repaired = sum(self._repair(pointer, record, bodies) for pointer, record in captures.items())
        return Repaired(repaired, bases, len(captures) - repaired)

    def _stored(self) -> Iterator[tuple[PagePointer, CaptureRecord]]:
        for row in self._table.scan_captures():
            for record in sound_records(row.cells):
                if record.kind == CAPTURE_STORED:
                    yield PagePointer(record.timestamp, row.row_key), record

    def _reads(self, value: bytes) -> bytes | None:
        try:
            return self._values.fetch(value)
        except CorruptionError:
            return None

    def _repair_bases(self) -> int:
        """Let the rows of bases that cannot be read name other records of the same bytes; -> how many could."""
        damaged = {name for name, cell_value in self._base_rows.scan() if self._reads(cell_value) is None}
        repaired = 0
        for pointer, record in self._stored() if damaged else ():
            for column in (capture.BODY, capture.MAIN):
                raw = self._reads(record.columns[column]) if column in record.columns else None
                name = b"" if raw is None else value_name(raw)
                if raw is None or name not in damaged:
                    continue
                with self._side.committer.lock:
                    value = self._values.append(pointer.row_key, column, pointer.timestamp, raw)
                    self._side.committer.commit(Plan([base_row(name, value)]))
                damaged.remove(name)
                repaired += 1
        return repaired

    def _bodies_of(self, identities: Collection[bytes]) -> dict[bytes, PagePointer]:
        """For each of some bodies a capture whose own record of it can be read."""
        found: dict[bytes, PagePointer] = {}
        for pointer, record in self._stored():
            identity = record.body_identity
            if identity in identities and identity not in found and self._reads(record.columns[capture.BODY]):
                found[identity] = pointer
        return found

    def _repair(self, pointer: PagePointer, old: CaptureRecord, bodies: Mapping[bytes, PagePointer]) -> bool:
        """Put values that can be read into a record; False where its body, or its headers, are nowhere."""
        timestamp, row_key = pointer
        source = bodies.get(old.body_identity)
        held = None if source is None else self._table.record(source.row_key, source.timestamp)
        body = None if held is None else self._reads(held.columns[capture.BODY])
        if body is None:
            return False
        lost = {column for column, value in old.refs if self._reads(value) is None}
        headers = self._reads(old.columns.get(capture.HEADERS, INLINE_TAG))
        if headers is None or lost - MADE_AGAIN - {capture.BODY}:
            return False
        content_type = capture.content_type_of(capture.decode_headers(headers) if headers else (), row_key)
        analysis = self._side.view.kernel.analyse(body, content_type)
        values = analysis.values() | {capture.BODY: body}
        with self._side.committer.lock:
            columns = old.columns | {
                column: self._values.append(row_key, column, timestamp, values[column])
                for column in lost & values.keys()
            }
            row = self._table.replacement(row_key, old, old._replace(columns=columns))
            if row is None:
                self._side.committer.drop_values()
                return False
            self._side.committer.commit(Plan([row]))
        return True
