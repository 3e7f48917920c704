"""Where a server is: its URL taken apart, and whether its socket may be trusted.

Knows the file system's owners and modes; sends nothing.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from docstore.backends import names_server
from docstore.model.errors import InvalidArgument, StoreUnavailable

UNIX: Final = "unix"
DEFAULT_PORTS: Final = {"http": 8470, "https": 443}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Address(NamedTuple):
    """Where a server is.

    Attributes:
        scheme: http, https or unix.
        host, port: of TCP.
        prefix: path before `/v1`, without a slash at its end.
        socket: path of a unix socket.
    """

    scheme: str
    host: str = ""
    port: int = 0
    prefix: str = ""
    socket: str = ""

    @property
    def is_local(self) -> bool:
        """Whether both ends are one machine, so that compression only costs time."""
        return self.scheme == UNIX or self.host in _LOOPBACK

    @property
    def authority(self) -> str:
        """What the `Host` header says."""
        if self.scheme == UNIX:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) == 443 else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{UNIX}:{self.socket}" if self.scheme == UNIX else f"{self.scheme}://{self.authority}{self.prefix}"


def parse_address(url: str) -> Address:
    """The parts of ``http://host:8470``, ``https://host/prefix`` or ``unix:/path/server.sock``.

    Raises:
        InvalidArgument: it is none of these.
    """
    if not names_server(url):
        raise InvalidArgument(f"a server is http://HOST:PORT, https://HOST or unix:/PATH, not {url!r:.200}")
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/") or "\0" in path:
            raise InvalidArgument(
                f"the path of a socket is absolute, such as unix:/run/docstore.sock; not {url!r:.200}"
            )
        return Address(UNIX, socket=path)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna" if not (host or "").isascii() else "ascii")
    except ValueError as error:  # UnicodeError is one
        raise InvalidArgument(f"{url!r:.200} is no address of a server: {error}") from error
    if not host or any(character <= " " or character == "\x7f" for character in url):
        raise InvalidArgument(f"{url!r:.200} names no host; write http://HOST:PORT")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidArgument(
            f"the address of a server is scheme, host, port and path; a token goes into token=, not into {parts.scheme}://"
        )
    return Address(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))


def check_socket(path: str) -> None:
    """Refuse a socket that another user could have put there, before anything is sent to it.

    Raises:
        StoreUnavailable: there is none, it is of another user, or others may use it.
    """
    try:
        found = Path(path).lstat()
    except OSError as error:
        raise StoreUnavailable(f"no server answers at {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise StoreUnavailable(f"{path} is no socket; nothing was sent")
    if found.st_uid != os.geteuid():
        raise StoreUnavailable(
            f"the socket {path} belongs to user {found.st_uid}, and this is user {os.geteuid()}; nothing was sent: run "
            "this as that user, or ask the server by its URL with a token"
        )
    if found.st_mode & 0o077:
        raise StoreUnavailable(
            f"the socket {path} has the mode {stat.S_IMODE(found.st_mode):04o}, so that others may use it; it must be "
            "0600; nothing was sent"
        )


def check_peer(connected: socket.socket, path: str) -> None:
    """Refuse who answers at a socket if it is another user: the path may have changed hands since `check_socket`.

    Raises:
        StoreUnavailable: the process at the other end is of another user.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    if user != os.geteuid():
        raise StoreUnavailable(f"user {user} answers at the socket {path}, and this is user {os.geteuid()}")
