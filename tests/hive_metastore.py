"""A Hive metastore for tests: a real Thrift server on a free port, over a table of tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar

from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport import TTransport


@dataclass
class HiveMetastore:
    """Tables by database and name: their parameters and folders.

    `locks` are the tables whose lock is held, by its number. `ignores_expected` makes it as old as
    metastores that do not compare parameters; `loses_answers` ends that many connections after a
    table was altered, before the answer.
    """

    tables: dict[tuple[str, str], tuple[Mapping[str, str], str]] = field(default_factory=dict)
    uri: str = ""
    locks: dict[int, tuple[str, str]] = field(default_factory=dict)
    ignores_expected: bool = False
    loses_answers: int = 0
    #: Called before a table is altered.
    before_alter: Callable[[], None] = lambda: None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def get_all_databases(self) -> list[str]:
        return sorted({database for database, _ in self.tables})

    def get_all_tables(self, db_name: str) -> list[str]:
        return [name for database, name in self.tables if database == db_name]

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        return [self.get_table(dbname, name) for name in tbl_names]

    def get_table(self, dbname: str, tbl_name: str) -> Any:
        if (dbname, tbl_name) not in self.tables:
            raise ttypes.NoSuchObjectException("no such table")
        parameters, location = self.tables[dbname, tbl_name]
        storage = ttypes.StorageDescriptor(location=location)
        return ttypes.Table(tableName=tbl_name, dbName=dbname, sd=storage, parameters=parameters)

    def lock(self, rqst: Any) -> Any:
        number, (component,) = next(self._numbers), rqst.component
        held = (component.dbname, component.tablename)
        if held in self.locks.values():
            return ttypes.LockResponse(lockid=number, state=ttypes.LockState.NOT_ACQUIRED)
        self.locks[number] = held
        return ttypes.LockResponse(lockid=number, state=ttypes.LockState.ACQUIRED)

    def unlock(self, rqst: Any) -> None:
        self.locks.pop(rqst.lockid, None)

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
    ) -> None:
        self.before_alter()
        wanted = environment_context.properties
        key, value = wanted["expected_parameter_key"], wanted["expected_parameter_value"]
        parameters, location = self.tables[dbname, tbl_name]
        if not self.ignores_expected and parameters.get(key) != value:
            raise ttypes.MetaException(
                f"The table has been modified. The parameter value for key '{key}' is"
                f" '{parameters.get(key)}'. The expected was value was '{value}'"
            )
        self.tables[dbname, tbl_name] = (new_tbl.parameters, location)
        if self.loses_answers:
            self.loses_answers -= 1
            raise TTransport.TTransportException


class _Handler(BaseRequestHandler):
    processor: ClassVar[Any]

    def handle(self) -> None:
        gone = suppress(TTransport.TTransportException, EOFError)
        with self.request.makefile("rwb", buffering=0) as stream, gone:
            files = TTransport.TFileObjectTransport(stream)
            protocol = TBinaryProtocol(TTransport.TBufferedTransport(files))
            while True:
                self.processor.process(protocol, protocol)


@contextmanager
def hive_metastore(metastore: HiveMetastore) -> Iterator[HiveMetastore]:
    """Serve the metastore; its `uri` is where."""
    processor = ThriftHiveMetastore.Processor(metastore)
    handler = type("Handler", (_Handler,), {"processor": processor})
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        metastore.uri = f"thrift://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield metastore
        finally:
            server.shutdown()
            thread.join()
