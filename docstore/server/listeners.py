"""The sockets of a server, made before anything is promised.

Knows addresses and paths; must not know what is served.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from docstore.model.errors import InvalidArgument, StoreUnavailable

LONGEST_SOCKET_PATH = 107
"""Bytes of a socket's path that Linux takes."""
SOCKET_NAME = "server.sock"
BACKLOG = 1024


def tcp_socket(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        StoreUnavailable: the port is taken.
        InvalidArgument: there is no such address.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InvalidArgument(f"cannot listen on {host!r}: {error}") from error
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise StoreUnavailable(
                f"port {port} of {host} is taken; give another with --port, or 0 for a free one"
            ) from error
        raise InvalidArgument(f"cannot listen on {host}, port {port}: {error}") from error
    made.setblocking(False)
    return made


def unix_socket(path: Path) -> socket.socket:
    """A socket that only this user can use.

    Raises:
        InvalidArgument: nothing can be made there.
        StoreUnavailable: another server listens there.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise InvalidArgument(f"{path} is too long for a socket: {LONGEST_SOCKET_PATH} bytes at most; give --unix PATH")
    _remove_dead(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # no moment in which others can connect
    try:
        made.bind(os.fsencode(path))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise InvalidArgument(f"cannot make the socket {path}: {error}; give another with --unix PATH") from error
    finally:
        os.umask(before)
    made.setblocking(False)
    return made


def default_socket_path(store: Path) -> Path:
    """Where the socket of a store lies: in its folder, or where that path is too long in a folder of its own."""
    path = store.absolute() / SOCKET_NAME
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    return Path(tempfile.mkdtemp(prefix="docstore-")) / SOCKET_NAME


def remove_socket(path: Path) -> None:
    """Remove a socket that was made here, with the folder that was made for it."""
    with suppress(OSError):
        path.unlink()
    if path.parent.name.startswith("docstore-") and path.parent.parent == Path(tempfile.gettempdir()):
        with suppress(OSError):
            path.parent.rmdir()


def _remove_dead(path: Path) -> None:
    """Remove the socket of a server that is gone."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise InvalidArgument(f"{path} is there and is no socket; give another with --unix PATH")
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidArgument(f"cannot look at {path}: {error}") from error
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fsencode(path))
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(FileNotFoundError):
                path.unlink()
        except OSError as error:
            raise InvalidArgument(f"cannot ask who listens on {path}: {error}") from error
        else:
            raise StoreUnavailable(f"another server listens on {path}; give another with --unix PATH")
