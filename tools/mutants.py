"""Changes single integers, comparisons and booleans of the native kernel, and counts which of the changes tests notice.

    python -m tools.mutants draw
    python -m tools.mutants build FOLDER
    python -m tools.mutants run FOLDER NAME [--tree TREE] [--cargo] [--after NAME...] [-- TESTS...]
    python -m tools.mutants table FOLDER

`draw` lists the mutants of `native/core/src` at the commit `BASE`, in an order that the seed fixes; tests and tables of
`native/core/data` have none.  An integer becomes one more, a comparison takes in its bound or gives it up, "equal"
becomes "not equal", true becomes false, "and" becomes "or", and a "not" goes.  `build` makes the module of one mutant
after another until `COUNT` of them compile, and keeps them in FOLDER beside a work tree of `BASE`: each costs an
incremental build.

`run` runs tests on each kept module and writes one line a mutant to FOLDER/NAME.tsv: caught, or survived.  The tests
are those of TREE, a checkout whose module is swapped (so never the one you work in); --cargo runs the Rust tests of
that checkout instead, with each mutant written into its source.  --after leaves out those that other runs caught, and
those that FOLDER/NAME.tsv has are not run again, so a run can be stopped.  A test that hangs for `SECONDS` has noticed
its mutant.  `table` puts the runs side by side.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

BASE: Final = "e59365b9"
SEED: Final = 48
COUNT: Final = 100
SECONDS: Final = 400
ROOT: Final = Path(__file__).parent.parent
SOURCE: Final = "native/core/src"
MODULE: Final = "docstore/dedup/docstore_native.*.so"
PROFILE: Final = (
    "profile.dev.opt-level=1",
    "profile.dev.debug=false",
    "profile.dev.debug-assertions=false",
    "profile.dev.overflow-checks=false",
    'profile.dev.package."*".opt-level=2',
)
"""Quick to build, and with the arithmetic of a release."""
_PROSE: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|b?r?#*\"(?:\\.|[^\"\\])*\"#*|b?'(?:\\[^']*'|[^\\']')|#!?\[[^\n]*\]", re.DOTALL
)
_SITE: Final = re.compile(
    r"(?<= )(?P<compares><=|>=|==|!=|<|>)(?= )"
    r"|(?<= )(?P<joins>&&|\|\|)(?= )"
    r"|(?<![\w)\]])(?P<negates>!)(?=[\w(])"
    r"|\b(?P<boolean>true|false)\b"
    r"|(?<!\w)(?:(?<=\.\.)|(?<!\.))(?P<integer>0x[0-9a-f_]+|\d[\d_]*)(?:[ui](?:8|16|32|64|size))?(?![\w]|\.\d)"
)
_OTHER: Final = {
    "<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "!": "",
    "true": "false", "false": "true",
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: `before` at a column of a line (from 1) becomes `after`; `nth` is its place among equal lines."""

    path: str
    line: int
    column: int
    text: str
    nth: int
    before: str
    after: str

    def write(self, tree: Path) -> None:
        """Write the change into a checkout, whose lines may have moved."""
        path = tree / self.path
        lines = path.read_text("utf-8").split("\n")
        places = [place for place, line in enumerate(lines) if line == self.text]
        changed = self.text[: self.column] + self.after + self.text[self.column + len(self.before) :]
        lines[places[self.nth]] = changed
        path.write_text("\n".join(lines), "utf-8")

    def __str__(self) -> str:
        return f"{self.path.removeprefix(SOURCE)[1:]}:{self.line}\t{self.before} -> {self.after or '(none)'}"


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All mutants of a file, tests apart."""
    lines = source.split("\n")
    code = _PROSE.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), source[: _tests_begin(source)])
    for number, line in enumerate(code.split("\n")):
        for match in _SITE.finditer(line):
            after = _OTHER.get(match[0]) if match.lastgroup != "integer" else None
            before = match[match.lastgroup or 0]
            if after is None:
                value = int(before.replace("_", ""), 0) + 1
                after = hex(value) if before.startswith("0x") else str(value)
            nth = lines[:number].count(lines[number])
            yield Mutant(path, number + 1, match.start(), lines[number], nth, before, after)


def _tests_begin(source: str) -> int:
    place = source.find("#[cfg(test)]\nmod ")
    return len(source) if place < 0 else place


def drawn() -> list[Mutant]:
    """All mutants of `BASE`, in the order in which they are tried."""
    listed = _git("ls-tree", "-r", "--name-only", BASE, SOURCE).split()
    found = [each for path in sorted(listed) for each in mutants_of(path, _git("show", f"{BASE}:{path}"))]
    random.Random(SEED).shuffle(found)
    return found


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _cargo(tree: Path, target: Path, *arguments: str, seconds: int = SECONDS) -> int:
    """The exit code of cargo in a checkout; of a command that takes too long, 124."""
    configuration = [part for each in PROFILE for part in ("--config", each)]
    command = ["cargo", arguments[0], "--quiet", "--locked", *configuration, *arguments[1:]]
    return _ends(command, tree / "native", {"CARGO_TARGET_DIR": str(target), "CARGO_INCREMENTAL": "1"}, seconds)


def _ends(command: list[str], folder: Path, environment: dict[str, str], seconds: int) -> int:
    ran = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        return ran.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)  # what cargo and pytest have started hangs with them
        return 124


def kept(folder: Path) -> list[tuple[int, Mutant]]:
    """The mutants whose modules are in a folder, with their places in the order."""
    return [(number, each) for number, each in enumerate(drawn()) if (folder / f"{number}.so").exists()]


def build(folder: Path) -> None:
    """Make the modules of the first `COUNT` mutants that compile."""
    tree, target = folder / "tree", folder / "target"
    folder.mkdir(parents=True, exist_ok=True)
    if not tree.exists():
        _git("worktree", "add", "--detach", str(tree), BASE)
    left = COUNT
    for number, mutant in enumerate(drawn()):
        module, refused = folder / f"{number}.so", folder / f"{number}.refused"
        if not module.exists() and not refused.exists():
            subprocess.run(["git", "checkout", "--quiet", "."], cwd=tree, check=True)
            mutant.write(tree)
            if _cargo(tree, target, "build", "-p", "docstore-native"):
                refused.touch()
            else:
                shutil.copyfile(target / "debug" / "libdocstore_native.so", module)
        left -= module.exists()
        print(left, number, mutant, "" if module.exists() else "does not compile", sep="\t", flush=True)
        if not left:
            return


def _noted(listed: Path, word: str = "") -> set[int]:
    """The numbers of the mutants that a run has noted, all or those with a word."""
    lines = listed.read_text("utf-8").splitlines() if listed.exists() else []
    return {int(line.split("\t")[0]) for line in lines if word in line}


def run(folder: Path, name: str, tree: Path, tests: list[str], *, is_cargo: bool, after: list[str]) -> None:
    """Run tests on each mutant, and note whether one failed."""
    listed = folder / f"{name}.tsv"
    known = _noted(listed).union(*(_noted(folder / f"{each}.tsv", "\tcaught\t") for each in after))
    (module,) = tree.glob(MODULE)
    whole = module.read_bytes()
    if not listed.exists() and (_tests(tree, tests) if not is_cargo else 0):
        raise SystemExit("the tests fail without a mutant")
    for number, mutant in kept(folder):
        if number in known:
            continue
        if is_cargo:
            source = tree / mutant.path
            before = source.read_bytes()
            mutant.write(tree)
            code = _cargo(tree, folder / "target-tests", "test", "-p", "docstore-kernel", *tests)
            source.write_bytes(before)
        else:
            module.unlink()  # a process may still read the file before
            shutil.copyfile(folder / f"{number}.so", module)
            code = _tests(tree, tests)
        with listed.open("a") as lines:
            print(number, "caught" if code else "survived", mutant, sep="\t", file=lines)
    module.unlink()
    module.write_bytes(whole)


def _tests(tree: Path, tests: list[str]) -> int:
    return _ends([sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests], tree, {}, SECONDS)


def table(folder: Path) -> None:
    """Print how many mutants each run caught, and of each mutant by which it was."""
    runs = {path.stem: _noted(path) for path in sorted(folder.glob("*.tsv"))}
    caught = {name: _noted(folder / f"{name}.tsv", "\tcaught\t") for name in runs}
    mutants = kept(folder)
    for name, numbers in caught.items():
        print(f"{name}: {len(numbers)} of {len(runs[name])}")
    for number, mutant in mutants:
        print(number, mutant, " ".join(name for name in caught if number in caught[name]) or "SURVIVES", sep="\t")


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=("draw", "build", "run", "table"))
    parser.add_argument("folder", type=Path, nargs="?", help="where the modules are kept")
    parser.add_argument("name", nargs="?", help="of a run")
    parser.add_argument("--tree", type=Path, help="the checkout whose tests run; that of BASE in the folder by default")
    parser.add_argument("--after", nargs="+", default=[], help="leave out what these runs caught")
    parser.add_argument("--cargo", action="store_true", help="run the Rust tests")
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    chosen, tests = parser.parse_args(sys.argv[1:place]), sys.argv[place + 1 :]
    if chosen.command == "draw":
        for each in drawn()[:COUNT]:
            print(each, each.text.strip(), sep="\t")
    elif chosen.command == "build":
        build(chosen.folder)
    elif chosen.command == "table":
        table(chosen.folder)
    else:
        run(
            chosen.folder,
            chosen.name,
            chosen.tree or chosen.folder / "tree",
            tests,
            is_cargo=chosen.cargo,
            after=chosen.after,
        )


if __name__ == "__main__":
    main()
