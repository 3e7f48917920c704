"""Calls to gateways, without a cluster: addresses, missing gateways, missing replies."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

import docstore
from docstore.cluster.client import Client, Conditional, HBaseCell, Unknown, batches, parse_address, put, row_mutations
from docstore.cluster.coding import (
    decode_cells,
    decode_key,
    decode_timestamp,
    encode_cell,
    encode_key,
    encode_timestamp,
    encode_value,
    filter_call,
)
from docstore.model.errors import CommitUnknown, InvalidArgument, StoreUnavailable
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.types import Cell


@pytest.mark.parametrize(
    ("address", "parsed"),
    [("node:9091", ("node", 9091)), ("node", ("node", 9090)), ("[::1]:80", ("::1", 80)), ("[::1]", ("::1", 9090))],
)
def test_an_address_names_host_and_port(address: str, parsed: tuple[str, int]) -> None:
    assert parse_address(address) == parsed


@pytest.mark.parametrize("address", ["", ":9090", "node:", "node:port", "node:0", "node:65536"])
def test_an_invalid_gateway_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a gateway"):
        parse_address(address)


@pytest.mark.parametrize("address", ["hbase://", "hbase://node", "hbase://node/", "hbase://node/a-b", "hbase://n/a/b"])
def test_an_address_without_gateway_or_namespace_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match="give hbase://host:port"):
        docstore.open(address)


@contextmanager
def gateway(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A gateway that does something with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    answer(server.accept()[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def hang_up(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.close()


def client(*addresses: str) -> Client:
    return Client(addresses, timeout_seconds=0.2, give_up_seconds=0, first_answer_seconds=0)


def test_an_unreachable_gateway_is_in_the_message() -> None:
    address = closed_port()
    with client(address) as calls, pytest.raises(StoreUnavailable, match=f"no gateway answers at {address}"):
        calls.has_table("any", "pages")


def test_a_write_without_a_reply_is_commit_unknown() -> None:
    with gateway(hang_up) as address, client(address) as calls, pytest.raises(CommitUnknown, match="same write again"):
        calls.put_many("ns:pages", [put(b"row", [HBaseCell(b"s", b"q", 1, b"v")])])


def test_a_conditional_write_is_sent_once() -> None:
    seen = []

    def count(connection: socket.socket) -> None:
        seen.append(connection.recv(1 << 16))
        connection.close()

    mutations = row_mutations(b"row", [put(b"row", [HBaseCell(b"w", b"slot", 1, b"token")])])
    with gateway(count) as address, client(address, address) as calls:
        with pytest.raises(Unknown):
            calls.check_and_mutate("ns:pages", (b"w", b"slot"), None, mutations)
        assert len(seen) == 1


def test_conditional_writes_without_a_reply_have_an_unknown_outcome() -> None:
    requests = [
        Conditional((b"w", b"slot"), None, row_mutations(row, [put(row, [HBaseCell(b"w", b"slot", 1, b"token")])]))
        for row in (b"%d" % number for number in range(20))
    ]
    with gateway(hang_up) as address, client(address) as calls:
        assert calls.check_and_mutate_all("ns:pages", requests) == [None] * len(requests)
    with client(closed_port()) as calls:
        assert calls.check_and_mutate_all("ns:pages", requests) == [None] * len(requests)


def test_the_timeout_of_a_retried_call_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    class Slow:
        def __init__(self, *_: object) -> None:
            pass

        def call(self, method: str, arguments: Sequence[object], timeout_seconds: float) -> bool:
            given.append(timeout_seconds)
            if timeout_seconds < 0.4:
                raise TimeoutError
            return True

        def close(self) -> None:
            pass

    monkeypatch.setattr("docstore.cluster.client.Connection", Slow)
    with Client(["node"], timeout_seconds=0.1, first_answer_seconds=60) as calls:
        assert calls.has_table("ns", "pages")
    assert given == [0.1, 0.2, 0.4]


def test_a_closed_client_refuses_calls() -> None:
    calls = client(closed_port())
    calls.close()
    calls.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        calls.has_table("any", "pages")


def answer_yes(server: socket.socket) -> None:
    """A gateway of one connection that says yes to each call of `tableExists`."""
    taken, _ = server.accept()
    server.close()  # a second connection is refused
    with taken:
        while asked := taken.recv(4096):
            head = 8 + len(b"tableExists")
            taken.sendall(b"\x80\x01\x00\x02" + asked[4 : head + 4] + b"\x02\x00\x00\x01\x00")


def test_a_forked_child_is_refused_and_leaves_its_parents_connections_alone() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with Client([f"127.0.0.1:{server.getsockname()[1]}"], timeout_seconds=60) as client:
        gateway = threading.Thread(target=answer_yes, args=(server,))
        gateway.start()
        assert client.has_table("a", "b")
        child = os.fork()
        if not child:
            refused = False
            try:
                client.has_table("a", "b")
            except StoreUnavailable as error:
                client.close()
                refused = "open the store here again" in str(error)
            finally:
                os._exit(not refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.has_table("a", "b")  # over the same connection, which the child has not shut down
    gateway.join()


def test_batches_are_bounded_in_number_and_bytes() -> None:
    assert list(batches([1, 2, 3, 4, 9, 1], lambda one: one, 3, 6)) == [[1, 2, 3], [4], [9], [1]]


# --- how cells lie in HBase


def test_row_keys_keep_their_order_and_are_never_empty() -> None:
    keys = [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x01", b"a", b"a\x00", b"\xff"]
    encoded = [encode_key(key) for key in keys]
    assert encoded == sorted(encoded) and all(encoded)
    assert [decode_key(key) for key in encoded] == keys
    with pytest.raises(InvalidArgument, match="a store on HBase takes 32000"):
        encode_key(bytes(32_001))


def test_the_last_timestamp_is_encoded_one_lower() -> None:
    for timestamp in (0, 1000, TIMESTAMP_MAX - 2, TIMESTAMP_MAX):
        assert decode_timestamp(encode_timestamp(timestamp)) == timestamp
    assert encode_timestamp(TIMESTAMP_MAX) < TIMESTAMP_MAX
    with pytest.raises(InvalidArgument, match="take another"):
        encode_timestamp(TIMESTAMP_MAX - 1)


@pytest.mark.parametrize("value", [b"", b"\xff", b"\xff\xff", b"\x00", b"value"])
def test_an_encoded_value_is_never_empty_and_decodes_to_the_same(value: bytes) -> None:
    assert encode_value(value)
    cell = encode_cell("pages", "page", b"body", 5000, value)
    assert decode_cells("pages", [cell]) == [Cell("page", b"body", 5000, value)]


def test_cells_of_a_row_come_in_docstores_order() -> None:
    cells = [
        encode_cell("pages", family, qualifier, timestamp, b"v")
        for family in ("anchor", "http", "page", "text")
        for qualifier in (b"", b"\x00", b"a")
        for timestamp in (2000, 1000)
    ]
    by_family = sorted(cells, key=lambda cell: (cell.family, cell.qualifier, -cell.timestamp))
    found = decode_cells("pages", [*by_family, HBaseCell(b"w", b"slot", 1, b"token")])
    assert found == sorted(found, key=lambda cell: (cell.family, cell.qualifier, -cell.timestamp))
    assert len(found) == len(cells)


def test_quotes_in_a_filter_are_doubled() -> None:
    assert filter_call(b"PrefixFilter", b"it's \x00") == b"PrefixFilter('it''s \x00')"
