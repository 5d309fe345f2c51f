# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The upgrade of a database's tables to the newest revision, with Alembic.

A new database goes through the same revisions as an old one. The caller's transaction holds the writers' lock, so that
of several processes that open an old database at the same time, one upgrades it and the others use the upgraded tables.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from pathlib import Path

import sqlalchemy
from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ..config import ConfigError, UnusableError
from . import schema

BASELINE = "0001"
"""The revision that has the tables of schema_version 1, from before Alembic."""

MIGRATIONS = Path(__file__).parent / "migrations"

log = logging.getLogger(__name__)

# Alembic passes its configuration to the migrations in module-level variables.
_alembic_lock = threading.Lock()


def revision_of(connection: Connection) -> str | None:
    """Return the revision that Alembic recorded in the database; None before the first."""
    if not sqlalchemy.inspect(connection).has_table(schema.alembic_version.name):
        return None
    return connection.execute(select(schema.alembic_version.c.version_num)).scalar()


def missing_tables(connection: Connection) -> list[str]:
    """Return the names of the tables that the newest revision has and the database does not, sorted."""
    return sorted(schema.metadata.tables.keys() - set(sqlalchemy.inspect(connection).get_table_names()))


def bring_to_newest(connection: Connection, file: str | None) -> None:
    """Make the tables, or upgrade them, in the open transaction of `connection`.

    file: the path of a SQLite database, which is copied before an upgrade; None for a database on a server.
    Raise ConfigError if the database has an unknown revision, and UnusableError if the copy or the upgrade fails.
    """
    revision = revision_of(connection)
    if revision == schema.REVISION:
        schema.metadata.create_all(connection)  # an operator may have dropped tables: those are made again
        return
    name = file or "the database"
    if revision is None and _is_version_1(connection, name):
        revision = BASELINE
    if revision is None:
        _migrate(connection, name, None)
        return
    if revision not in known_revisions():
        raise _unknown(name, f"the revision {revision!r}", f"{file}.revision-..." if file else "")
    kept = f"; the old state is in {_keep_copy(file, revision)}" if file else ""
    _migrate(connection, name, revision)
    log.info("state.database: upgraded %s from revision %s to %s%s", name, revision, schema.REVISION, kept)


def known_revisions() -> list[str]:
    """Return the revisions in `migrations/versions`, newest first."""
    from alembic.script import ScriptDirectory

    return [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]


def _is_version_1(connection: Connection, name: str) -> bool:
    """Return whether the database has the tables of schema_version 1; False if it has no table of this program.

    Raise ConfigError for any other tables.
    """
    missing = missing_tables(connection)
    if len(missing) == len(schema.metadata.tables):
        return False
    if schema.schema_version.name in missing:
        raise ConfigError(
            f"state.database: {name} has tables of this program, but neither alembic_version nor schema_version, so "
            "that their revision is unknown; restore a copy of the database, or name an empty one"
        )
    version = connection.execute(select(schema.schema_version.c.version)).scalar()
    if version != 1:
        raise _unknown(name, f"schema_version {version}", "")
    return True


def _unknown(name: str, found: str, copy: str) -> ConfigError:
    return ConfigError(
        f"state.database: {name} has {found}, which is unknown to this version of glidein-demand; the newest revision "
        f"of this version is {schema.REVISION}. Install the version that upgraded the database, or stop the service "
        f"and restore a copy from before the upgrade{f' ({copy})' if copy else ''}"
    )


def _migrate(connection: Connection, name: str, revision: str | None) -> None:
    """Run the migrations after the recorded revision. `revision` is for the message; None for a new database."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        with _alembic_lock:
            command.upgrade(config, "head")
    except SQLAlchemyError as error:
        before = f"the upgrade from revision {revision}" if revision else "making the tables"
        raise UnusableError(
            f"state.database: {name}: {before} to revision {schema.REVISION} failed, and nothing was changed: "
            f"{one_line(error)}"
        ) from error


def _keep_copy(file: str, revision: str) -> Path:
    """Copy the SQLite database to FILE.revision-REVISION (mode 0600), in place of an older copy; return the path.

    The copy has all committed data. The caller holds the writers' lock, so nothing is committed meanwhile.
    """
    target = Path(f"{file}.revision-{revision}")
    partial = Path(f"{target}.partial")
    try:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with (
                contextlib.closing(sqlite3.connect(file)) as source,
                contextlib.closing(sqlite3.connect(partial)) as copy,
            ):
                source.backup(copy)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise UnusableError(
            f"state.database: {target}, the copy that is kept before an upgrade, cannot be written: {one_line(error)}. "
            f"Check the free space and the owner of {target.parent}; nothing was changed"
        ) from error
    return target


def one_line(error: BaseException) -> str:
    """Return the driver's text of an error in one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:300]
