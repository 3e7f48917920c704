"""What is written to a connection in one turn of the event loop goes in one system call, whole and in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from docstore.serving.run import JoiningTransport

LONG = bytes(100_000)


class Counting(socket.socket):
    """A socket that notes what is given to it at a time."""

    sent: list[bytes]

    def send(self, data: object, flags: int = 0) -> int:
        self.sent.append(bytes(data))  # type: ignore[call-overload]
        return super().send(data, flags)  # type: ignore[arg-type]


def sent(work: Callable[[JoiningTransport], None]) -> tuple[list[bytes], bytes]:
    """What the system was given, call by call, and what came out at the other end."""

    async def run() -> tuple[list[bytes], bytes]:
        one, other = socket.socketpair()
        near = Counting(fileno=one.detach())
        near.sent = []
        near.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=other)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, near)
        joining = JoiningTransport(transport, loop)
        work(joining)
        await asyncio.sleep(0)
        joining.close()
        received = await reader.read(-1)
        writer.close()
        return near.sent, received

    return asyncio.run(run())


@pytest.mark.parametrize("pieces", [[b"head", b"body"], [b"head"], [b"a"] * 50, [b"head", b"", b"body"]])
def test_short_pieces_go_together(pieces: list[bytes]) -> None:
    def work(transport: JoiningTransport) -> None:
        for piece in pieces:
            transport.write(piece)

    assert sent(work) == ([b"".join(pieces)], b"".join(pieces))


def test_a_long_piece_goes_behind_what_came_before_it() -> None:
    def work(transport: JoiningTransport) -> None:
        transport.write(b"head")
        transport.write(LONG)
        transport.write(b"tail")

    calls, received = sent(work)
    assert calls[0] == b"head" and received == b"head" + LONG + b"tail"


def test_a_writer_that_does_not_wait_is_not_held_back_without_end() -> None:
    def work(transport: JoiningTransport) -> None:
        for _ in range(1000):
            transport.write(bytes(1000))
        assert transport.get_write_buffer_size() > 0, "the transport sees it, and stops its writer"

    calls, received = sent(work)
    assert received == bytes(1_000_000) and len(calls) > 1


def test_what_was_written_goes_before_the_end() -> None:
    def work(transport: JoiningTransport) -> None:
        transport.write(b"head")
        transport.close()

    assert sent(work) == ([b"head"], b"head")


def test_what_it_does_not_know_the_transport_does() -> None:
    def work(transport: JoiningTransport) -> None:
        assert not transport.is_closing() and transport.get_extra_info("socket") is not None

    assert sent(work) == ([], b"")
