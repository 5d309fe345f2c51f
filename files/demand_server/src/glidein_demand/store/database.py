# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The database: one connection pool, and transactions.

Several processes may use one database at a time: the server, and commands such as `glidein-demand pause`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable

import sqlalchemy
from sqlalchemy import Column, ColumnElement, Connection, Engine, Table, delete, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.sql.dml import Insert

from ..config import ConfigError, UnusableError
from ..values import one_line
from . import schema
from .schema import REVISION, alembic_version, metadata

_LIMITS = {"connect_timeout": 5, "tcp_user_timeout": 15000, "keepalives_idle": 10, "keepalives_interval": 5}
"""Parameters of libpq, in seconds; tcp_user_timeout in milliseconds."""

BUSY_SECONDS = 30
"""Seconds that a writer waits for the writers' lock before the database counts as unusable."""

MIN_FREE_BYTES = 2**20
"""Free space of the SQLite file's disk below which the disk counts as full."""

_READS = "glidein_reads"  # the execution option of connections that only read
_WRITERS_LOCK = 0x676C6964  # the key of this program's advisory lock in a PostgreSQL database
_INSERTS: dict[str, Callable[[Table], sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}

_TOKENS = "run the role glidein.ops.demand_server again, which installs the sites' tokens"
_DAMAGES = ("malformed", "not a database")  # parts of SQLite's messages about a damaged file
_FAILED_WRITES = ("disk is full", "disk I/O error", "readonly database")  # parts of those about a failed write

log = logging.getLogger(__name__)


class LostError(SQLAlchemyError):
    """The SQLite file is not the one that was opened; the message has the remedy."""


class Database:
    """Transactions on the database at `url` (SQLAlchemy's form; `sqlite:////path` is a file, made with mode 0600).

    Committed data survives `kill -9` of the process at any moment, and with SQLite a power failure too: its
    write-ahead log is flushed before a commit returns. Missing tables are made.
    Raise UnusableError if the database cannot be used now, and ConfigError if the URL is invalid or another version of
    this program made the tables.
    """

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._failure = ""  # the SQLite file is damaged, which is permanent, or the last write to it failed
        self._is_damaged = False
        self._file = Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None
        self._engine = _engine(parsed)
        try:
            if self._file is not None:
                # With mode 0600, before SQLite makes it with a mode that depends on the umask.
                os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
                event.listen(self._engine, "handle_error", self._note_failure)
            self._identity = self._identify()
            self._reader = _reader(self._engine)
            self._turn = threading.RLock()
            self._open: Connection | None = None  # the connection of the transaction of the thread that has the turn
            with self.read() as connection:  # does not wait for a writer
                is_complete = self._is_complete(connection)
            if not is_complete:
                with self.begin() as connection:
                    if not self._is_complete(connection):  # another process may have made the tables
                        metadata.create_all(connection)
                        row = {"version_num": REVISION}
                        connection.execute(upsert(connection, alembic_version, ["version_num"]), [row])
        except (SQLAlchemyError, OSError) as error:
            raise UnusableError(self._failure or f"state.database: cannot be used: {driver_text(error)}") from error

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction that may write: committed at the end of the block, rolled back by an exception.

        One transaction of all processes is open at a time: no other process changes what it reads until it ends.
        Within a transaction of the same thread, this is a part of it. Raise LostError.
        """
        # Threads of one process wait for a lock, which is fair and fast. SQLite would sleep and try again.
        with self._turn:
            if self._open is not None:
                yield self._open
                return
            self._require_file()
            with self._engine.begin() as connection:
                before = self._changed_rows(connection)
                self._open = connection
                try:
                    yield connection
                finally:
                    self._open = None
                has_written = self._changed_rows(connection) > before
            # A transaction without a change is committed also if the file cannot be written.
            if has_written and not self._is_damaged:
                self._failure = ""

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection that only reads. It waits for no writer, and all its queries see the same state.

        Raise LostError.
        """
        self._require_file()
        with self._reader.connect() as connection:
            yield connection

    def problem(self) -> str:
        """Return the reason why the database cannot be used now, or ""."""
        try:
            with self.read() as connection:
                connection.execute(select(alembic_version)).all()
            # On a full disk, a small write still fits into the pages that the write-ahead log has already.
            if self._file is not None and shutil.disk_usage(self._file.parent).free < MIN_FREE_BYTES:
                return self._cannot_be_written(f"less than {MIN_FREE_BYTES} bytes are free")
        except LostError as error:
            return str(error)
        except (SQLAlchemyError, OSError) as error:
            return self._failure or f"state.database: cannot be used: {driver_text(error)}"
        return self._failure

    def _changed_rows(self, connection: Connection) -> int:
        """Return how many rows a connection with an SQLite file has changed since it was opened."""
        driver: Any = connection.connection.driver_connection
        return driver.total_changes if self._file is not None else 0

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _is_complete(self, connection: Connection) -> bool:
        """Return whether the database has all tables. Raise ConfigError if another version made those that it has."""
        found = metadata.tables.keys() & set(sqlalchemy.inspect(connection).get_table_names())
        is_known = alembic_version.name in found
        revision = connection.execute(select(alembic_version.c.version_num)).scalar() if is_known else None
        if found and revision != REVISION:
            empty = f"move {self._file} with its -wal and -shm away" if self._file else "name an empty one"
            raise ConfigError(
                f"state.database: {self._file or 'the database'} has the tables of another version of glidein-demand: "
                f"revision {revision}; this version uses revision {REVISION}. Install the version that made the "
                f"tables, or stop the service, {empty} and {_TOKENS}. Then the next cycles report and lease again, and "
                "history and core-hours start anew"
            )
        return found == metadata.tables.keys()

    def _identify(self) -> tuple[int, int] | None:
        """Return the device and inode of the SQLite file; None without such a file."""
        try:
            status = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return (status.st_dev, status.st_ino) if status is not None else None

    def _require_file(self) -> None:
        """Raise LostError if the SQLite file was removed or replaced.

        Open connections would still use the file, which has no name any more, and lose what is written.
        """
        if self._identify() != self._identity:
            raise LostError(
                f"state.database: {self._file} was removed or replaced while the server ran. Stop the service, restore "
                f"a copy and start it; without a copy, restart the service and {_TOKENS}"
            )

    def _note_failure(self, context: sqlalchemy.engine.ExceptionContext) -> None:
        """Store and log a message if the error means that the SQLite file is damaged or cannot be written."""
        text, before = driver_text(context.original_exception), self._failure
        if any(words in text for words in _DAMAGES):
            self._is_damaged = True
            self._failure = (
                f"state.database: cannot be used: {text}. The file is damaged: stop the service, restore "
                f"a copy of {self._file} or move it away together with {self._file}-wal and {self._file}-shm, and "
                f"{_TOKENS}"
            )
        elif any(words in text for words in _FAILED_WRITES) and not self._is_damaged:
            self._failure = self._cannot_be_written(text)
        if self._failure != before:
            log.error("%s", self._failure)

    def _cannot_be_written(self, reason: str) -> str:
        return (
            f"state.database: {self._file} cannot be written: {reason}. Check the free space, the quota "
            "and the mount of its directory; the server continues by itself when writes succeed"
        )


def driver_text(error: BaseException) -> str:
    """Return the driver's text of an error in one line."""
    return one_line(getattr(error, "orig", None) or error)[:300]


def parse_url(url: str) -> URL:
    """Parse the URL; raise ConfigError if it is invalid or names no file. Messages never have its password."""
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):  # the error's text may have the password
        raise ConfigError("state.database: not a database URL; must be one such as sqlite:////path") from None
    if name not in _INSERTS:
        raise ConfigError(f"state.database: {name} is not supported; must be sqlite or postgresql")
    if name == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ConfigError("state.database: names no file; must be a URL such as sqlite:////path")
    return parsed


def upsert(connection: Connection, table: Table, keys: Sequence[str], add: Sequence[str] = ()) -> Insert:
    """Return an INSERT that replaces the row with the same `keys` (a primary key or unique columns).

        connection.execute(upsert(connection, table, ["site"]), [{"site": "A", "jobs": 3}])

    Each row must give all columns that have no default. The values of columns in `add` are added to the stored values.
    """
    statement = _INSERTS[connection.dialect.name](table)
    new = {
        column.name: column + statement.excluded[column.name] if column.name in add else statement.excluded[column.name]
        for column in table.columns
        if column.name not in keys
    }
    if not new:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    return statement.on_conflict_do_update(index_elements=list(keys), set_=new)


def markers(connection: Connection, kind: str) -> dict[str, Any]:
    """Return {source: marker} of a kind; see the table."""
    column = schema.marker.c
    rows = connection.execute(select(column.source, column.value).where(column.kind == kind))
    return {source: json.loads(value) for source, value in rows}


def set_marker(connection: Connection, kind: str, source: str, value: Any) -> None:
    """Store the marker of a source."""
    row = {"kind": kind, "source": source, "value": json.dumps(value)}
    connection.execute(upsert(connection, schema.marker, ["kind", "source"]), [row])


def keep_newest(connection: Connection, time_of: Column[Any], most: int, *of: ColumnElement[bool]) -> None:
    """Delete the rows that match `of` and are older than the `most` newest ones, by the column `time_of`."""
    if connection.execute(select(func.count(time_of)).where(*of)).scalar_one() > most:
        newest = select(time_of).where(*of).order_by(time_of.desc()).limit(1)
        oldest_kept = connection.execute(newest.offset(most - 1)).scalar_one()
        connection.execute(delete(time_of.table).where(*of, time_of < oldest_kept))


def check_url(url: str) -> None:
    """Raise ConfigError if the URL is invalid or its driver is missing. Open no connection."""
    _engine(parse_url(url)).dispose()


def _engine(url: URL) -> Engine:
    # Errors are logged. Parameters have hashes of tokens, and they differ between failures that are the same.
    options: dict[str, Any] = {"hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        options.update(connect_args={"timeout": BUSY_SECONDS})
    else:
        # Each statement reads data committed before it. The writers' lock keeps other processes from committing.
        options.update(isolation_level="READ COMMITTED", pool_pre_ping=True)
        if url.get_driver_name().startswith("psycopg"):
            # A lost server would be noticed after minutes. The URL's own values have precedence.
            options.update(connect_args={key: value for key, value in _LIMITS.items() if key not in url.query})
    try:
        engine = sqlalchemy.create_engine(url, **options)
    except (ImportError, NoSuchModuleError) as error:
        raise ConfigError(f"state.database: its driver is missing: {error}") from error
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", _sqlite_begun)
    else:
        event.listen(engine, "begin", _postgresql_begun)
    return engine


def _reader(engine: Engine) -> Engine:
    """Return an engine with the same connections, for transactions that only read."""
    options: dict[str, Any] = {_READS: True}
    if engine.dialect.name == "postgresql":
        options.update(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine.execution_options(**options)


def _sqlite_connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # `_sqlite_begun` begins transactions, not the driver
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")


def _use_wal(connection: Any) -> None:
    """Switch to write-ahead logging; wait for other processes that do the same, which SQLite's timeout does not."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _sqlite_begun(connection: Connection) -> None:
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _postgresql_begun(connection: Connection) -> None:
    if not connection.get_execution_options().get(_READS):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")
