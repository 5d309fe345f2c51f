# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The database: one connection pool, transactions, and the version of the schema.

Each file of this package declares its own tables on `metadata`; nobody else writes to them. Several processes may use
one database at a time (the server, and commands such as `glidein-demand pause`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, event, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.sql.dml import Insert

from ..config import ConfigError, UnusableError

SCHEMA = 1
"""Version of all tables together. A database of another version is refused."""

BUSY_SECONDS = 30
"""How long a writer waits for its turn before the database counts as unusable."""

metadata = MetaData()

_schema = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

_READS = "glidein_reads"  # the execution option that tells a reading connection from a writing one
_WRITERS_LOCK = 0x676C6964  # of this program among the advisory locks of a PostgreSQL database
_INSERTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


_TOKENS = "run the role glidein.ops.demand_server again, which installs the sites' tokens"
_DAMAGES = ("malformed", "not a database")  # what SQLite's errors of a damaged file have in common
_FAILED_WRITES = ("disk is full", "disk I/O error", "readonly database")  # of a file that cannot be written now


class LostError(Exception):
    """The database is not the one that the server opened; the message has the remedy."""


class Database:
    """Transactions on the database at `url` (SQLAlchemy's form; `sqlite:////path` is a file, made with mode 0600).

    What is committed survives `kill -9` of the process at any moment, and with SQLite a power failure too: its
    write-ahead log is flushed before a commit returns. Raises UnusableError if the database cannot be used now, and
    ConfigError if the URL or the version of the tables is wrong.
    """

    def __init__(self, url: str) -> None:
        # So that all tables are on `metadata`, whoever opens the database first.
        from . import tables  # noqa: F401 - importing declares them

        parsed = parse_url(url)
        self.damage = ""
        self.failed_write = ""
        self._file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        try:
            if self._file is not None:
                _make_file(parsed)
            self._engine = _engine(parsed)
            event.listen(self._engine, "handle_error", self._note_damage)
            self._reader = _reader(self._engine)
            self._turn = threading.RLock()
            with self.begin() as connection:
                metadata.create_all(connection)
                _check_version(connection)
            self._identity = self._identify()
        except (ImportError, NoSuchModuleError) as error:
            raise ConfigError(f"state.database: its driver is missing: {error}") from error
        except (SQLAlchemyError, OSError) as error:
            raise UnusableError(self.damage or f"state.database: cannot be used: {one_line(error)}") from error

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction that may write: committed at the end of the block, rolled back by an exception.

        Writers take turns, over all processes: what a transaction reads stays true until it ends.
        """
        # Between threads of one process a lock is fair and quick; SQLite would make them sleep and try again.
        with self._turn, self._engine.begin() as connection:
            yield connection
        self.failed_write = ""

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that only reads. It waits for no writer, and all it reads is of one moment."""
        with self._reader.connect() as connection:
            yield connection

    def check(self) -> None:
        """Raise LostError if the database is gone or another one is in its place, SQLAlchemyError if it cannot be read.

        A SQLite file that is removed stays open: without this check the server goes on with a file that has no name,
        and new connections make a new file without tables.
        """
        if self._identify() != self._identity:
            raise LostError(self._lost("was removed or replaced"))
        with self.read() as connection:
            if not sqlalchemy.inspect(connection).has_table(_schema.name):
                raise LostError(self._lost("has no tables any more"))
            if connection.execute(select(_schema.c.version)).scalar() != SCHEMA:
                raise LostError(self._lost("has tables of another version"))

    def close(self) -> None:
        self._engine.dispose()

    def _identify(self) -> tuple[int, int] | None:
        """Return what tells the SQLite file from another one of the same name; None if there is no file."""
        try:
            status = Path(self._file).stat() if self._file is not None else None
        except FileNotFoundError:
            return None
        return (status.st_dev, status.st_ino) if status is not None else None

    def _lost(self, what: str) -> str:
        name = self._file or "the database"
        return (
            f"state.database: {name} {what} while the server ran. The server ends, and its next start makes empty "
            f"tables where there are none. To keep tokens and history, stop the service and restore a copy; "
            f"otherwise {_TOKENS}, and make other tokens again with glidein-demand token create"
        )

    def _note_damage(self, context: sqlalchemy.engine.ExceptionContext) -> None:
        """Store the message of an error that says that the SQLite file is damaged or cannot be written.

        If the file is damaged, trying again does not help. A failed write counts until the next one that succeeds.
        """
        error = context.original_exception
        if self._file is not None and any(words in str(error) for words in _FAILED_WRITES):
            self.failed_write = (
                f"state.database: {self._file} cannot be written: {one_line(error)}. Check the free space, the quota "
                "and the mount of its directory; the server goes on when a write succeeds"
            )
        if self._file is not None and any(words in str(error) for words in _DAMAGES):
            self.damage = (
                f"state.database: cannot be used: {one_line(error)}. The file is damaged: stop the service, restore "
                f"a copy of {self._file} or move it away together with {self._file}-wal and {self._file}-shm, and "
                f"{_TOKENS}"
            )


def parse_url(url: str) -> URL:
    """The URL in parts; ConfigError for what is none, or names no file. It may have a password: it is not quoted."""
    try:
        parsed = make_url(url)
        name = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):  # whose texts may quote the password
        raise ConfigError("state.database: not a database URL; must be one such as sqlite:////path") from None
    if name not in _INSERTS:
        raise ConfigError(f"state.database: {name} is not supported; must be sqlite or postgresql")
    if name == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ConfigError("state.database: names no file; must be a URL such as sqlite:////path")
    return parsed


def upsert(connection: Connection, table: Table, keys: Sequence[str], add: Sequence[str] = ()) -> Insert:
    """An INSERT that replaces the row with the same `keys` (a primary key or unique), in this database's own words.

        connection.execute(upsert(connection, table, ["site"]), [{"site": "A", "jobs": 3}])

    Every row must give all columns of the table that have no default. Columns in `add` are added to what is there.
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


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = sqlalchemy.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", _sqlite_begun)
        return engine
    # Each statement sees what was committed before it; that nothing is committed meanwhile is the lock's work.
    engine = sqlalchemy.create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True)
    event.listen(engine, "begin", _postgresql_begun)
    return engine


def _reader(engine: Engine) -> Engine:
    """The same connections, for transactions that only read."""
    options: dict[str, Any] = {_READS: True}
    if engine.dialect.name == "postgresql":
        options.update(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine.execution_options(**options)


def _sqlite_connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_sqlite_begun` says, not where the driver guesses
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _sqlite_begun(connection: Connection) -> None:
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _postgresql_begun(connection: Connection) -> None:
    if not connection.get_execution_options().get(_READS):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")


def _make_file(url: URL) -> None:
    """Make the file with mode 0600 before SQLite would make it with what the umask leaves."""
    if url.database:
        os.close(os.open(url.database, os.O_RDWR | os.O_CREAT, 0o600))


def _check_version(connection: Connection) -> None:
    found = connection.execute(select(_schema.c.version)).scalar()
    if found is None:
        connection.execute(_schema.insert().values(version=SCHEMA))
    elif found != SCHEMA:
        raise ConfigError(f"state.database: has tables of version {found}; this program knows version {SCHEMA}")


def one_line(error: BaseException) -> str:
    """Return the driver's text of an error in one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:300]
