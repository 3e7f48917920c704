"""The terminal: arguments in, text or JSON out; no logic."""

import os

TYPE_CHECKING = False  # mypy takes it for True
if TYPE_CHECKING:
    from typing import NoReturn


def start() -> "NoReturn":
    """Run the program `docstore`.

    Nothing is imported before, so that an interrupt while modules are loaded prints one line, as it does later.
    """
    try:
        from docstore.cli.main import program

        program()
    except KeyboardInterrupt:
        os.write(2, b"docstore: error: interrupted\n")
        os._exit(130)
