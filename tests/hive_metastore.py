"""A Hive metastore for tests: a real Thrift server on a free port, over a table of tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar

from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport import TTransport


@dataclass
class HiveMetastore:
    """Tables by database and name: their parameters and folders."""

    tables: dict[tuple[str, str], tuple[Mapping[str, str], str]] = field(default_factory=dict)
    uri: str = ""

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
