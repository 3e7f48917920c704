"""The oldest of very many pages that fits: each page that does not is passed once, not once for every question.

Pure; must not know rows, nor what fits.

Pages with one body, with one text, or with one text and title lie in order, oldest first.  A verdict asks for the
oldest that fits and is of another row than its own; so two are kept, the oldest that may fit, and the oldest of another
row than that one.  A page that does not fit now is taken never to fit, until it is posted again: deleted pages, pages
of another status class.  A version that expired and that a later equal value shows again is found after the next open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from docstore.model.pointers import PagePointer

Fits = Callable[[PagePointer], bool | None]
"""Whether a page fits; None where that is not known before the group in flight is committed."""
_END: Final = PagePointer(1 << 64, b"")
"""Behind every page."""
_BEGIN: Final = PagePointer(0, b"")


class Oldest:
    """The oldest fitting page, and the oldest of another row.  One for each thing that may be asked of a body.

    Args:
        behind: gives the pages behind one, in order.
    """

    __slots__ = ("_ahead", "_behind", "_first", "_second")

    def __init__(self, behind: Callable[[PagePointer], Iterator[PagePointer]]) -> None:
        self._behind = behind
        self._ahead: Iterator[PagePointer] | None = None
        """Pages behind the first, while none is posted: many that do not fit are passed in one read."""
        self._first = _BEGIN
        self._first = self._next()
        self._second = self._next_of_another_row(self._first)

    def find(self, row_key: bytes, fits: Fits) -> PagePointer | None:
        """The oldest page that fits and is not of this row; None where there is none, or where one is in doubt."""
        while self._first is not _END:
            is_other = self._first.row_key != row_key
            page = self._first if is_other else self._second
            if page is _END:
                return None
            fit = fits(page)
            if fit is not False:
                return page if fit else None
            if is_other:
                self._pass_first()
            else:
                self._second = self._next_of_another_row(page)
        return None

    def add(self, page: PagePointer) -> None:
        """A page has been posted."""
        self._ahead = None
        if page < self._first:
            if page.row_key != self._first.row_key:
                self._second = self._first
            self._first = page
        elif page < self._second and page.row_key != self._first.row_key:
            self._second = page

    def _pass_first(self) -> None:
        passed, self._first = self._first, self._next()
        if self._first.row_key != passed.row_key:  # what lies between is of the row that was first, or does not fit
            self._second = self._next_of_another_row(self._first)

    def _next(self) -> PagePointer:
        if self._ahead is None:
            self._ahead = self._behind(self._first)
        return next(self._ahead, _END)

    def _next_of_another_row(self, page: PagePointer) -> PagePointer:
        """The next page behind one that is of another row than the first."""
        if page is _END:
            return _END
        own = self._first.row_key
        return next((each for each in self._behind(page) if each.row_key != own), _END)
