"""HBase's Thrift2 messages as Python makes them, and one connection to a gateway.

Knows thriftpy2, and is its only importer.  Tables, rows and values are bytes as HBase has them.  What fails is raised
as it comes; `client` decides what it means.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from docstore.model.errors import InvalidArgument

CONNECT_SECONDS: Final = 1.5
NEWEST: Final = (1 << 63) - 1
"""HBase's own largest timestamp: as a cell's time it means the server's clock."""


class HBaseCell(NamedTuple):
    """A cell as HBase has it."""

    family: bytes
    qualifier: bytes
    timestamp: int
    value: bytes


@cache
def messages() -> Any:
    """The module of the messages.

    Raises:
        InvalidArgument: thriftpy2 is not installed.
    """
    try:
        thriftpy2 = importlib.import_module("thriftpy2")
    except ImportError as error:
        raise InvalidArgument("stores on HBase need thriftpy2: pip install 'docstore[hbase]'") from error
    return thriftpy2.load(str(Path(__file__).with_name("thrift2.thrift")), module_name="docstore_hbase_thrift")


class Connection:
    """One connection to one gateway; used by one thread at a time."""

    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        made = messages()
        sockets = importlib.import_module("thriftpy2.transport")
        protocols = importlib.import_module("thriftpy2.protocol")
        self._socket = sockets.TSocket(
            host, port, socket_timeout=timeout_seconds * 1000, connect_timeout=CONNECT_SECONDS * 1000
        )
        transport = sockets.TCyBufferedTransportFactory().get_transport(self._socket)
        transport.open()
        self._transport = transport
        self._protocol = protocols.TCyBinaryProtocolFactory().get_protocol(transport)
        self._thrift = importlib.import_module("thriftpy2.thrift")
        self._service = made.THBaseService
        self._failures = (made.TIOError, made.TIllegalArgument)

    def call(self, method: str, arguments: Sequence[Any], timeout_seconds: float) -> Any:
        """Call a method of the gateway and wait for its reply."""
        self._socket.set_timeout(timeout_seconds * 1000)
        self._send(method, arguments)
        self._transport.flush()
        return self._receive(method)

    def call_all(self, method: str, calls: Sequence[Sequence[Any]], timeout_seconds: float) -> Iterator[Any]:
        """Send calls one behind the other, and give their replies in order; the gateway makes one at a time.

        Args:
            method: of the gateway.
            calls: the arguments of each.
            timeout_seconds: for sending them, and for each reply.
        Returns:
            For each its answer, or the exception that the gateway answered.  What fails otherwise is raised: the
            gateway may make the calls that were not answered.
        """
        self._socket.set_timeout(timeout_seconds * 1000)
        for arguments in calls:
            self._send(method, arguments)
        self._transport.flush()
        for _ in calls:
            try:
                yield self._receive(method)
            except self._failures as failure:
                yield failure

    def _send(self, method: str, arguments: Sequence[Any]) -> None:
        protocol = self._protocol
        protocol.write_message_begin(method, self._thrift.TMessageType.CALL, 0)
        getattr(self._service, method + "_args")(*arguments).write(protocol)
        protocol.write_message_end()

    def _receive(self, method: str) -> Any:
        protocol = self._protocol
        _, kind, _ = protocol.read_message_begin()
        refused = kind == self._thrift.TMessageType.EXCEPTION
        result = self._thrift.TApplicationException() if refused else getattr(self._service, method + "_result")()
        result.read(protocol)
        protocol.read_message_end()
        if refused:
            raise result
        answer = getattr(result, "success", None)
        if answer is not None:
            return answer
        for name, failure in vars(result).items():
            if name != "success" and failure is not None:
                raise failure
        return None

    def close(self) -> None:
        """Let go of it."""
        self._transport.close()


def put(row: bytes, cells: Sequence[HBaseCell], durability: int | None = None) -> Any:
    """Cells of one row to write."""
    made = messages()
    columns = [
        made.TColumnValue(family=family, qualifier=qualifier, value=value, timestamp=timestamp)
        for family, qualifier, timestamp, value in cells
    ]
    return made.TPut(row=row, columnValues=columns, durability=durability)


def delete_families(row: bytes, families: Sequence[bytes], durability: int | None = None) -> Any:
    """Delete whole families of a row."""
    made = messages()
    columns = [made.TColumn(family=family, timestamp=NEWEST - 1) for family in families]
    return made.TDelete(row=row, columns=columns, deleteType=made.TDeleteType.DELETE_FAMILY, durability=durability)


def delete_versions(row: bytes, places: Sequence[tuple[bytes, bytes, int]], durability: int | None = None) -> Any:
    """Delete single versions of columns of a row: (family, qualifier, timestamp)."""
    made = messages()
    columns = [made.TColumn(family=family, qualifier=qualifier, timestamp=at) for family, qualifier, at in places]
    return made.TDelete(row=row, columns=columns, deleteType=made.TDeleteType.DELETE_COLUMN, durability=durability)


def delete_columns(row: bytes, columns: Sequence[tuple[bytes, bytes, int]], durability: int | None = None) -> Any:
    """Delete all versions of columns of a row up to a timestamp: (family, qualifier, last timestamp)."""
    made = messages()
    gone = [made.TColumn(family=family, qualifier=qualifier, timestamp=at) for family, qualifier, at in columns]
    return made.TDelete(row=row, columns=gone, deleteType=made.TDeleteType.DELETE_COLUMNS, durability=durability)


def row_mutations(row: bytes, parts: Sequence[Any]) -> Any:
    """Puts and deletes of one row, applied as one."""
    made = messages()
    mutations = [
        made.TMutation(deleteSingle=part) if isinstance(part, made.TDelete) else made.TMutation(put=part)
        for part in parts
    ]
    return made.TRowMutations(row=row, mutations=mutations)


def cells_of(result: Any) -> list[HBaseCell]:
    """The cells of one row of an answer."""
    return [
        HBaseCell(column.family, column.qualifier, column.timestamp, column.value)
        for column in result.columnValues or ()
    ]
