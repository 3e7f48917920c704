"""Every interleaving of a few programs of `cluster.protocol`, with faults: an explicit-state model checker.

A state is what rows hold, what each process has been answered, and which requests are still on their way.  Programs are
deterministic, so a process is known by its answers.  From each state every next step is taken: a process's request is
answered; or, while there are faults left, its answer is lost, it comes late, it comes twice, or the process stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from docstore.cluster.protocol import CheckAndMutate, Request, Running

Rows = Mapping[str, Mapping[str, str]]
Program = Running[str]
Make = Callable[[Iterator[str]], Program]
"""Makes a program, given the tokens that are its own."""
Frozen = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


class State(NamedTuple):
    """Where a run is; `results` has what each process came to, None while it runs, "stopped" after a stop."""

    rows: Frozen
    histories: tuple[tuple[Any, ...], ...]
    stopped: tuple[bool, ...]
    under_way: tuple[CheckAndMutate, ...]
    faults: int


def freeze(rows: Rows) -> Frozen:
    return tuple(sorted((row, tuple(sorted(columns.items()))) for row, columns in rows.items()))


def thaw(rows: Frozen) -> dict[str, dict[str, str]]:
    return {row: dict(columns) for row, columns in rows}


def applied(rows: Frozen, request: CheckAndMutate) -> tuple[Frozen, bool]:
    columns = dict(dict(rows).get(request.row, ()))
    if columns.get(request.column) != request.expected:
        return rows, False
    columns = {name: value for name, value in columns.items() if name not in request.deletes} | dict(request.puts)
    return freeze({**thaw(rows), request.row: columns}), True


class Scheduler:
    """Runs programs in every order.

    Args:
        programs: what each process runs.
        check: called with the rows and the processes' results of every state; raises AssertionError.
        faults: how many a run may have.
        tokens: how many a process may use; who needs more stops there.
    """

    def __init__(
        self,
        programs: Mapping[str, Make],
        check: Callable[[Rows, Mapping[str, str | None]], None],
        faults: int,
        tokens: int = 3,
    ) -> None:
        self._programs = list(programs.items())
        self._check = check
        self._faults = faults
        self._tokens = tokens
        self._known: dict[tuple[int, tuple[Any, ...]], tuple[Request | None, str | None]] = {}

    def run(self, rows: Rows) -> int:
        """Take every step from every state; -> how many states there are."""
        nobody = tuple(() for _ in self._programs)
        first = State(self.stored(rows), nobody, tuple(False for _ in self._programs), (), self._faults)
        seen = {first}
        waiting = [first]
        while waiting:
            state = waiting.pop()
            self._check(self.shown(state.rows), self._results(state))
            for following in self._next(state):
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return len(seen)

    # --- where rows lie: a subclass may keep them elsewhere

    def stored(self, rows: Rows) -> Frozen:
        """Rows as a state holds them."""
        return freeze(rows)

    def shown(self, rows: Frozen) -> Rows:
        """Rows as a check looks at them."""
        return thaw(rows)

    def applied(self, rows: Frozen, request: CheckAndMutate) -> tuple[Frozen, bool]:
        """Rows after a request, and whether its condition held."""
        return applied(rows, request)

    def read(self, rows: Frozen, request: str) -> tuple[tuple[str, str], ...]:
        """The columns of a row, in order."""
        return dict(rows).get(request, ())

    def _results(self, state: State) -> dict[str, str | None]:
        results = {}
        for number, (name, _) in enumerate(self._programs):
            _, result = self._at(number, state.histories[number])
            results[name] = "stopped" if state.stopped[number] and result is None else result
        return results

    def _at(self, number: int, history: tuple[Any, ...]) -> tuple[Request | None, str | None]:
        """What a process asks after some answers, or what it came to."""
        key = (number, history)
        if key not in self._known:
            name, make = self._programs[number]
            program = make(f"{name}{n}" for n in range(self._tokens))
            try:
                request = next(program)
                for answer in history:
                    request = program.send(dict(answer) if isinstance(answer, tuple) else answer)
                self._known[key] = (request, None)
            except StopIteration as end:
                self._known[key] = (None, end.value)
            except RuntimeError:  # it has no tokens left: two that shut each other out may go on for ever
                self._known[key] = (None, "stopped")
        return self._known[key]

    def _next(self, state: State) -> Iterator[State]:
        for at, request in enumerate(state.under_way):
            rest = state.under_way[:at] + state.under_way[at + 1 :]
            yield state._replace(rows=self.applied(state.rows, request)[0], under_way=rest)
        for number in range(len(self._programs)):
            request, _ = self._at(number, state.histories[number])
            if request is None or state.stopped[number]:
                continue
            if isinstance(request, str):
                yield self._answered(state, number, self.read(state.rows, request))
                continue
            rows, held = self.applied(state.rows, request)
            yield self._answered(state._replace(rows=rows), number, held)
            if not state.faults:
                continue
            fewer = state._replace(faults=state.faults - 1)
            later = tuple(sorted((*state.under_way, request), key=repr))
            yield self._answered(fewer._replace(rows=rows), number, None)
            yield self._answered(fewer._replace(under_way=later), number, None)
            yield self._answered(fewer._replace(rows=rows, under_way=later), number, held)
            stopped = tuple(one or other == number for other, one in enumerate(state.stopped))
            yield fewer._replace(stopped=stopped)
            yield fewer._replace(stopped=stopped, under_way=later)

    @staticmethod
    def _answered(state: State, number: int, answer: object) -> State:
        histories = list(state.histories)
        histories[number] = (*histories[number], answer)
        return state._replace(histories=tuple(histories))
