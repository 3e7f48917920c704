"""Calls to an HBase cluster through its Thrift2 gateways: connection pool, deadline, and failover between gateways.

Failures of Thrift and HBase become errors of docstore here.  Tables, rows and values are bytes as in HBase.

Reads are retried until the deadline.  So are unconditional writes: they put or delete the same cells at the same
timestamps, so applying them twice changes nothing.  A conditional write is sent once.  If its outcome is unknown,
`Unknown` is raised, and the caller reads the row and decides.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, InvalidArgument, StorageError, StoreUnavailable, missing_extra

CONNECT_SECONDS: Final = 1.5
NEWEST: Final = (1 << 63) - 1
"""HBase's largest timestamp; as the timestamp of a put it means the server's clock."""


class HBaseCell(NamedTuple):
    """A cell as HBase stores it."""

    family: bytes
    qualifier: bytes
    timestamp: int
    value: bytes


@cache
def messages() -> Any:
    """The module of the Thrift messages.

    Raises:
        InvalidArgument: thriftpy2 is not installed.
    """
    try:
        import thriftpy2
    except ImportError as error:
        raise missing_extra("a store on HBase", "hbase", error) from error
    return thriftpy2.load(str(Path(__file__).with_name("thrift2.thrift")), module_name="docstore_hbase_thrift")


class Connection:
    """One connection to one gateway; used by one thread at a time."""

    def __init__(self, host: str, port: int, timeout_seconds: float) -> None:
        types = messages()  # refuses if there is no thriftpy2
        from thriftpy2 import protocol, thrift, transport

        self._socket = transport.TSocket(
            host, port, socket_timeout=timeout_seconds * 1000, connect_timeout=CONNECT_SECONDS * 1000
        )
        buffered = transport.TCyBufferedTransportFactory().get_transport(self._socket)
        buffered.open()
        self._transport = buffered
        self._protocol = protocol.TCyBinaryProtocolFactory().get_protocol(buffered)
        self._thrift = thrift
        self._service = types.THBaseService
        self._failures = (types.TIOError, types.TIllegalArgument)

    def call(self, method: str, arguments: Sequence[Any], timeout_seconds: float) -> Any:
        """Call a method of the gateway and wait for its reply."""
        self._socket.set_timeout(timeout_seconds * 1000)
        self._send(method, arguments)
        self._transport.flush()
        return self._receive(method)

    def call_all(self, method: str, calls: Sequence[Sequence[Any]], timeout_seconds: float) -> Iterator[Any]:
        """Pipeline calls: send all, then give their replies in order; the gateway runs one at a time.

        Args:
            method: of the gateway.
            calls: the arguments of each.
            timeout_seconds: for sending them, and for each reply.
        Returns:
            For each call its reply, or the exception that the gateway replied.  Other failures are raised; the gateway
            may still run the calls without a reply.
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
        """Close the connection."""
        self._transport.close()


def log_level(durability: Durability) -> int:
    """HBase's number for how a write goes to its log."""
    level: int = getattr(messages().TDurability, "SKIP_WAL" if durability is Durability.NONE else "SYNC_WAL")
    return level


def put(row: bytes, cells: Sequence[HBaseCell], durability: int | None = None) -> Any:
    """A put of cells of one row."""
    types = messages()
    columns = [
        types.TColumnValue(family=family, qualifier=qualifier, value=value, timestamp=timestamp)
        for family, qualifier, timestamp, value in cells
    ]
    return types.TPut(row=row, columnValues=columns, durability=durability)


def delete_families(row: bytes, families: Sequence[bytes], durability: int | None = None) -> Any:
    """A delete of whole families of a row."""
    types = messages()
    columns = [types.TColumn(family=family, timestamp=NEWEST - 1) for family in families]
    return types.TDelete(row=row, columns=columns, deleteType=types.TDeleteType.DELETE_FAMILY, durability=durability)


def delete_versions(row: bytes, places: Sequence[tuple[bytes, bytes, int]], durability: int | None = None) -> Any:
    """A delete of single versions of columns of a row: (family, qualifier, timestamp)."""
    types = messages()
    columns = [types.TColumn(family=family, qualifier=qualifier, timestamp=at) for family, qualifier, at in places]
    return types.TDelete(row=row, columns=columns, deleteType=types.TDeleteType.DELETE_COLUMN, durability=durability)


def delete_columns(row: bytes, columns: Sequence[tuple[bytes, bytes, int]], durability: int | None = None) -> Any:
    """A delete of all versions of columns of a row up to a timestamp: (family, qualifier, last timestamp)."""
    types = messages()
    gone = [types.TColumn(family=family, qualifier=qualifier, timestamp=at) for family, qualifier, at in columns]
    return types.TDelete(row=row, columns=gone, deleteType=types.TDeleteType.DELETE_COLUMNS, durability=durability)


def row_mutations(row: bytes, parts: Sequence[Any]) -> Any:
    """Puts and deletes of one row, applied atomically."""
    types = messages()
    mutations = [
        types.TMutation(deleteSingle=part) if isinstance(part, types.TDelete) else types.TMutation(put=part)
        for part in parts
    ]
    return types.TRowMutations(row=row, mutations=mutations)


def cells_of(result: Any) -> list[HBaseCell]:
    """The cells of one row of a reply."""
    return [
        HBaseCell(column.family, column.qualifier, column.timestamp, column.value)
        for column in result.columnValues or ()
    ]


# --- calls

Item = TypeVar("Item")
Answer = TypeVar("Answer")

TIMEOUT_SECONDS = 3.0
"""Of a call; large batches get more."""
SECONDS_A_MEGABYTE = 1.0
LONGEST_TIMEOUT_SECONDS = 12.0
"""The timeout doubles with each retry up to this: a slow server finishes the call, and would get the same work again
and again."""
GIVE_UP_SECONDS = 60.0
"""How long a call is retried; a cluster that has lost a server answers again within some ten seconds."""
FIRST_ANSWER_SECONDS = 10.0
"""The same for a cluster that has never answered: its address may be wrong."""
PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 1.0
DEFAULT_PORT = 9090
MAX_PIPELINED_BYTES = 4 << 20
"""Of conditional writes that are pipelined on one connection."""
GETS_A_CALL = 500
PARALLEL_CALLS = 16
"""Calls of one client that are in flight at a time."""

_WRONG_CALL = (
    "NoSuchColumnFamily",
    "IllegalArgument",
    "KeyValue size too large",
    "Row length",
    "DoNotRetryIOException",
)
_NOT_WRONG = ("NotServingRegion", "RegionServerStopped", "RegionTooBusy", "ConnectionClosing", "CallTimeout")
_NO_TABLE = ("TableNotFoundException", "TableNotEnabledException", "NamespaceNotFoundException")
_EXISTS = ("TableExistsException", "NamespaceExistException")


class Unknown(Exception):
    """A conditional write was sent, and it is unknown whether it was or will be applied."""


class Conditional(NamedTuple):
    """A change of a row if the newest cell of a column equals a value.

    Attributes:
        column: family and qualifier.
        expected: its value, not empty; None for no cell.
        mutations: of the row, from `row_mutations`.
        size_bytes: of the mutations, approximately.
    """

    column: tuple[bytes, bytes]
    expected: bytes | None
    mutations: Any
    size_bytes: int = 0


_READ, _WRITE, _CONDITION = "read", "write", "condition"
"""Kinds of calls."""


class Client:
    """Calls to one cluster.  Thread-safe.

    Args:
        addresses: host:port of each gateway.
        timeout_seconds: of one call.
        give_up_seconds: how long a failed call is retried.
        first_answer_seconds: the same before the first call is answered.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        give_up_seconds: float = GIVE_UP_SECONDS,
        first_answer_seconds: float = FIRST_ANSWER_SECONDS,
    ) -> None:
        self._gateways = [parse_address(address) for address in addresses]
        self._timeout_seconds = timeout_seconds
        self._give_up_seconds = give_up_seconds
        self._first_answer_seconds = first_answer_seconds
        self._gateway = random.randrange(len(self._gateways))
        """Index of the gateway for new connections: the one that answered last."""
        self._idle: list[tuple[int, Connection]] = []
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._process = os.getpid()
        self._was_reached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; does nothing if called again, or in a forked child, whose parent owns them."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        for _, connection in idle:
            connection.close()

    def check_open(self) -> None:
        """Refuse a call after `close`, or in a forked child, whose parent owns the connections and the writer's name.

        Raises:
            StoreUnavailable: it is closed, or was opened before a fork.
        """
        if os.getpid() != self._process:
            raise StoreUnavailable("this process is a fork of the one that opened the store; open the store here again")
        if self._is_closed:
            raise StoreUnavailable("the store is closed; open it again")

    # --- rows

    def get_many(self, table: str, gets: Sequence[Any]) -> list[list[HBaseCell]]:
        """Cells of many rows, in the order of the gets."""
        results = self._call(_READ, "getMultiple", table.encode(), gets)
        return [cells_of(result) for result in results]

    def exist(self, table: str, gets: Sequence[Any]) -> list[bool]:
        """Whether each get matches a cell; any number of gets."""
        parts = [gets[at : at + GETS_A_CALL] for at in range(0, len(gets), GETS_A_CALL)]
        results = self.in_parallel(lambda part: self._call(_READ, "existsAll", table.encode(), part), parts)
        return [exists for part in results for exists in part]

    def scan(self, table: str, scan: Any, rows: int) -> list[tuple[bytes, list[HBaseCell]]]:
        """The first rows of a scan; a row with more cells than the scan's batch size comes in several parts."""
        results = self._call(_READ, "getScannerResults", table.encode(), scan, rows)
        return [(result.row, cells_of(result)) for result in results]

    def put_many(self, table: str, puts: Sequence[Any], size_bytes: int = 0) -> None:
        """Write cells of many rows, each row atomically."""
        self._call(_WRITE, "putMultiple", table.encode(), puts, size_bytes=size_bytes)

    def delete_many(self, table: str, deletes: Sequence[Any]) -> None:
        """Delete cells of many rows."""
        self._call(_WRITE, "deleteMultiple", table.encode(), deletes)

    def mutate_row(self, table: str, mutations: Any, size_bytes: int = 0) -> None:
        """Put and delete cells of one row atomically."""
        self._call(_WRITE, "mutateRow", table.encode(), mutations, size_bytes=size_bytes)

    def check_and_mutate(
        self, table: str, column: tuple[bytes, bytes], expected: bytes | None, mutations: Any, *, equal: bool = True
    ) -> bool:
        """Change a row if the newest cell of a column equals a value.

        False may also mean that it was applied, and the gateway retried it after a lost reply.

        Args:
            table: of the row.
            column: family and qualifier.
            expected: its value, not empty; None for no cell.
            mutations: of the row, from `row_mutations`.
            equal: False to change it if it does not equal the value.
        Raises:
            Unknown: it was sent, and may be applied now or later.
        """
        operators = messages().TCompareOp
        applied: bool = self._call(
            _CONDITION,
            "checkAndMutate",
            table.encode(),
            mutations.row,
            *column,
            operators.EQUAL if equal else operators.NOT_EQUAL,
            expected or b"",
            mutations,
        )
        return applied

    def check_and_mutate_all(self, table: str, requests: Sequence[Conditional]) -> list[bool | None]:
        """Change rows, each on its condition, in any order; calls are pipelined on each connection.

        Returns:
            For each what `check_and_mutate` returns; None if it is unknown whether it was or will be applied.
        """
        self.check_open()
        name = table.encode()
        share = max(1, -(-len(requests) // PARALLEL_CALLS))
        parts = list(batches(requests, lambda request: request.size_bytes, share, MAX_PIPELINED_BYTES))
        replies = self.in_parallel(lambda part: self._pipelined(name, part), parts)
        return [applied for part in replies for applied in part]

    def _pipelined(self, table: bytes, requests: Sequence[Conditional]) -> list[bool | None]:
        equal = messages().TCompareOp.EQUAL
        calls = [(table, ask.mutations.row, *ask.column, equal, ask.expected or b"", ask.mutations) for ask in requests]
        megabytes = sum(request.size_bytes for request in requests) / (1 << 20)
        answers: list[bool | None] = []
        connection = None
        try:
            gateway, connection = self._connection()
            for answer in connection.call_all(
                "checkAndMutate", calls, self._timeout_seconds + SECONDS_A_MEGABYTE * megabytes
            ):
                refused = _refusal(answer) if isinstance(answer, Exception) else None
                if refused is not None:
                    raise refused from answer
                answers.append(None if isinstance(answer, Exception) else answer)
        except (InvalidArgument, StoreUnavailable):
            self._drop(connection)
            raise
        except Exception:  # the outcome of calls without a reply is unknown
            self._drop(connection)
            return answers + [None] * (len(requests) - len(answers))
        except BaseException:
            self._drop(connection)
            raise
        self._release(gateway, connection)
        return answers

    def in_parallel(self, work: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Call `work` for each item, several at a time; raises the first failure after all have ended."""
        if len(items) < 2:
            return [work(item) for item in items]
        self.check_open()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(PARALLEL_CALLS, "docstore-hbase")
            pool = self._pool
        futures = [pool.submit(work, item) for item in items]
        failed = [error for future in futures if (error := future.exception()) is not None]
        if failed:
            raise failed[0]
        return [future.result() for future in futures]

    # --- tables

    @staticmethod
    def family(name: str, **options: Any) -> Any:
        """The descriptor of a column family, for `make_table`."""
        return messages().TColumnFamilyDescriptor(name=name.encode(), **options)

    def make_namespace(self, name: str) -> None:
        """Create a namespace if it does not exist."""
        self._make("createNamespace", messages().TNamespaceDescriptor(name=name))

    def make_table(self, namespace: str, name: str, families: Sequence[Any], splits: Sequence[bytes] = ()) -> None:
        """Create a table if it does not exist."""
        if not self.has_table(namespace, name):
            types = messages()
            described = types.TTableDescriptor(
                tableName=_table_name(namespace, name), columns=families, durability=types.TDurability.SYNC_WAL
            )
            self._make("createTable", described, list(splits))

    def _make(self, method: str, *arguments: Any) -> None:
        try:
            self._call(_WRITE, method, *arguments, timeout_seconds=30)
        except InvalidArgument as error:
            if not any(word in str(error) for word in _EXISTS):
                raise

    def has_table(self, namespace: str, name: str) -> bool:
        """Whether a table exists."""
        exists: bool = self._call(_READ, "tableExists", _table_name(namespace, name))
        return exists

    def disable_table(self, namespace: str, name: str) -> None:
        """Take a table out of service, which flushes its memstores."""
        with suppress(InvalidArgument, StoreUnavailable):  # it is disabled already
            self._call(_WRITE, "disableTable", _table_name(namespace, name), timeout_seconds=30)

    def drop_table(self, namespace: str, name: str) -> None:
        """Remove a table with all its rows."""
        self.disable_table(namespace, name)
        self._call(_WRITE, "deleteTable", _table_name(namespace, name), timeout_seconds=30)

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace without tables."""
        self._call(_WRITE, "deleteNamespace", name, timeout_seconds=30)

    def servers_of(self, table: str) -> dict[bytes, int]:
        """The port of the RegionServer of each region of a table, by the region's first row key."""
        regions = self._call(_READ, "getAllRegionLocations", table.encode())
        return {region.regionInfo.startKey or b"": region.serverName.port for region in regions}

    # --- one call

    def _call(
        self, kind: str, method: str, *arguments: Any, size_bytes: int = 0, timeout_seconds: float | None = None
    ) -> Any:
        self.check_open()
        timeout = timeout_seconds or self._timeout_seconds + SECONDS_A_MEGABYTE * size_bytes / (1 << 20)
        end = time.monotonic() + (self._give_up_seconds if self._was_reached else self._first_answer_seconds)
        pause = PAUSE_SECONDS
        was_sent = False
        while True:
            connection = None
            try:
                gateway, connection = self._connection()
                was_sent = True
                answer = connection.call(method, arguments, timeout)
            except Exception as error:
                self._drop(connection)
                refused = _refusal(error)
                if refused is not None:
                    raise refused from error
                if was_sent and kind == _CONDITION:
                    raise Unknown(str(error)) from error
                self.check_open()
                if isinstance(error, TimeoutError):
                    timeout = min(2 * timeout, max(timeout, LONGEST_TIMEOUT_SECONDS))
                if time.monotonic() >= end:
                    raise self._deadline_error(kind, error, was_sent=was_sent) from error
            except BaseException:  # interrupted: its reply may still come
                self._drop(connection)
                raise
            else:
                self._release(gateway, connection)
                return answer
            time.sleep(min(pause, max(0.0, end - time.monotonic())))
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _connection(self) -> tuple[int, Connection]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            turn = self._gateway
        host, port = self._gateways[turn]
        try:
            return turn, Connection(host, port, self._timeout_seconds)
        except Exception:
            with self._lock:
                self._gateway = (turn + 1) % len(self._gateways)
            raise

    def _release(self, gateway: int, connection: Connection) -> None:
        """After a reply: put the connection back into the pool."""
        with self._lock:
            self._was_reached = True
            self._gateway = gateway
            if not self._is_closed:
                self._idle.append((gateway, connection))
                return
        connection.close()

    def _drop(self, connection: Connection | None) -> None:
        """After a failure: close all pooled connections, and use the next gateway."""
        if connection is None:
            return
        with suppress(Exception):
            connection.close()
        with self._lock:
            self._gateway = (self._gateway + 1) % len(self._gateways)
            idle, self._idle = self._idle, []
        for _, unused in idle:
            with suppress(Exception):
                unused.close()

    def _deadline_error(self, kind: str, error: Exception, *, was_sent: bool) -> Exception:
        what = str(getattr(error, "message", None) or error).split("\n", maxsplit=1)[0][:200]
        names = ", ".join(f"{host}:{port}" for host, port in self._gateways)
        if not was_sent:
            return StoreUnavailable(f"no gateway answers at {names} ({what}); start it, or name another")
        if kind == _READ:
            return StorageError(errno.EIO, f"the cluster at {names} does not answer ({what}); try again")
        return CommitUnknown(f"the cluster at {names} does not answer ({what}); the same write again is safe")


def _refusal(error: Exception) -> Exception | None:
    """The error of docstore for a permanent failure; None if a retry may succeed."""
    if isinstance(error, InvalidArgument):
        return error
    message = getattr(error, "message", None)
    if not isinstance(error, messages().TIOError | messages().TIllegalArgument) or not message:
        return None
    line = message.split("\n", maxsplit=1)[0][:300]
    if any(word in message for word in _EXISTS):
        return InvalidArgument(line)
    if any(word in message for word in _NO_TABLE):
        return StoreUnavailable(f"a table of the store is missing or disabled: {line}")
    if any(word in message for word in _WRONG_CALL) and not any(word in message for word in _NOT_WRONG):
        return InvalidArgument(f"HBase refuses the call: {line}")
    return None


def _table_name(namespace: str, name: str) -> Any:
    return messages().TTableName(ns=namespace.encode(), qualifier=name.encode())


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of a gateway, such as `node1:9090`, `node1` or `[::1]:9090`.

    Raises:
        InvalidArgument: the address is invalid.
    """
    host, colon, port = address.strip().rpartition(":")
    if not colon or address.strip().endswith("]"):
        host, port = address.strip(), str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise InvalidArgument(f"{address!r} is not a gateway; give host:port, such as localhost:{DEFAULT_PORT}")
    return host, int(port)


def batches(
    items: Sequence[Item], size_bytes: Callable[[Item], int], most: int, most_bytes: int
) -> Iterator[list[Item]]:
    """Items in batches, bounded in number and bytes."""
    batch: list[Item] = []
    batch_bytes = 0
    for item in items:
        item_bytes = size_bytes(item)
        if batch and (len(batch) == most or batch_bytes + item_bytes > most_bytes):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += item_bytes
    if batch:
        yield batch
