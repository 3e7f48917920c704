"""The entry point: finds, imports and runs one command; every error becomes one line on stderr and an exit code.

Knows the table of commands and the exit codes; must not know what any command does.  Only the module of the
command that runs is imported: a cold `docstore get` counts milliseconds.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from docstore.cli import registry
from docstore.cli.output import line, prepare_streams, report_error
from docstore.model.errors import EXIT_OK, DocstoreError, InvalidArgument, StorageError

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""128 and the number of SIGPIPE, as the shell shows it for other programs that a closed pipe has ended."""
STORE = "--store"
"""The one option that may stand before the command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `docstore` with these arguments (None: those of the process); gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        report_error("interrupted")
        return EXIT_INTERRUPTED
    except DocstoreError as error:
        report_error(str(error))
        return error.exit_code
    except OSError as error:
        # The store's own I/O arrives as StorageError; this is the terminal's side: an output file, or stdout.
        report_error(f"cannot read or write: {error}")
        return StorageError.exit_code
    return code


def program() -> NoReturn:
    """Be the process: run `main` and end.

    Everything is closed and flushed by then; taking a hundred modules down one by one, as the interpreter's own end
    does, would cost a cold `docstore get` ten milliseconds more.
    """
    gc.disable()  # until the command is loaded: importing leaves no garbage, and looking for it takes a twentieth
    prepare_streams()
    try:
        code = main()
    except BrokenPipeError:  # the reader of stderr has closed it
        code = EXIT_BROKEN_PIPE
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # what could not be written has been reported, or cannot be
            stream.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    words = _store_behind(words)
    name = words[0] if words else "--help"
    if name in {"-h", "--help", "help"}:
        if len(words) > 1 and (asked := registry.find(words[1])) is not None:
            return _run_command(asked, ["--help"])
        line(registry.overview())
        return EXIT_OK if words else InvalidArgument.exit_code
    if name in {"-V", "--version"}:
        return _print_version()
    command = registry.find(name)
    if command is None:
        raise InvalidArgument(_unknown(name))
    return _run_command(command, words[1:])


def _store_behind(words: list[str]) -> list[str]:
    """The words, with a `--store PATH` that stands before the command put behind it."""
    if not words or words[0].partition("=")[0] != STORE:
        return words
    length = 1 if "=" in words[0] else 2
    if len(words) < length:
        raise InvalidArgument(f"{STORE} takes the path of a store; see `docstore --help`")
    option, command = words[:length], words[length:]
    return [*command[:1], *option, *command[1:]] if command else []


def _run_command(command: registry.Command, words: list[str]) -> int:
    module = registry.load(command)
    if not gc.isenabled():
        gc.freeze()  # what was imported stays
        gc.enable()
    try:
        parser = registry.parser_of(command)
        args, left = parser.parse_known_args(words)
        if left:  # argparse gives an optional argument up at the first option: `put URL --store S FILE`
            args = parser.parse_intermixed_args(words)
    except SystemExit as leaving:  # only --help leaves so
        return int(leaving.code or 0)
    return module.run(args)


def _print_version() -> int:
    kernel = importlib.import_module("docstore.dedup.kernel")
    version = importlib.import_module("docstore.version")
    line(f"docstore {version.__version__} (kernel: {kernel.Kernel.name})")
    return EXIT_OK


def _unknown(name: str) -> str:
    if name.startswith("-"):
        return f"option {name} before the command; write `docstore COMMAND {name} ...`, see `docstore --help`"
    near = importlib.import_module("difflib").get_close_matches(
        name, [command.name for command in registry.COMMANDS], n=1
    )
    hint = f"did you mean `docstore {near[0]}`?" if near else "`docstore --help` lists the commands"
    return f"no command {name!r}; {hint}"


def _forget_stdout() -> None:
    """Send the interpreter's last flush to /dev/null: the reader of the pipe has closed it."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
