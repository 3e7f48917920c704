"""The core between calls: what fails, what asks it meanwhile, and what a fork leaves of it."""

from __future__ import annotations

import os

import pytest

from docstore.compiled import docstore_native
from docstore.model.errors import StoreUnavailable
from docstore.model.keys import row_key
from tests.cases.test_verdict_cases import Judge
from tests.pages import changed, page, words

FIRST, SECOND = words(1, 100), changed(words(1, 100), 2, 1)


class Failing:
    """Reads for a core, of which one fails or asks the core again."""

    def __init__(self, judge: Judge, name: str, error: BaseException | None = None) -> None:
        self._judge, self._name, self._error = judge, name, error

    def __getattr__(self, name: str) -> object:
        real = getattr(self._judge.pages, name)
        if name != self._name:
            return real

        def failing(*arguments: object) -> object:
            if self._error is not None:
                raise self._error
            return self._judge.core.clear_pages()

        return failing


def compare(judge: Judge, reads: docstore_native.Reads) -> object:
    body = page(SECOND, "")
    return judge.core.compare(row_key("https://b.example/"), body, judge.kernel.analyse(body), 200, reads)


@pytest.mark.parametrize("name", ["postings", "page", "propose", "is_readable"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("no room")], ids=["interrupt", "error"])
def test_a_read_that_fails_ends_the_call_and_leaves_the_core_in_order(name: str, error: BaseException) -> None:
    judge = Judge(caches=False)
    judge.put("a.example/", 200, 1000, page(FIRST, ""))
    with pytest.raises(type(error)):
        compare(judge, Failing(judge, name, error))  # type: ignore[arg-type]
    assert judge.put("b.example/", 200, 2000, page(SECOND, "")) == "near a.example/"


def test_a_call_while_the_core_reads_is_refused() -> None:
    judge = Judge()
    judge.put("a.example/", 200, 1000, page(FIRST, ""))
    with pytest.raises(RuntimeError, match="another call"):
        compare(judge, Failing(judge, "propose"))  # type: ignore[arg-type]
    assert judge.put("b.example/", 200, 2000, page(SECOND, "")) == "near a.example/"


def test_a_core_is_dead_in_the_child_of_a_fork_and_says_so() -> None:
    judge = Judge()
    child = os.fork()
    if not child:
        try:
            judge.core.clear_pages()
        except StoreUnavailable as error:
            os._exit(7 if "fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    judge.core.clear_pages()
