# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the database tables' revisions, and of upgrading a database that an older version made."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from glidein_demand.config import ConfigError, UnusableError
from glidein_demand.store import schema, upgrade
from glidein_demand.store.database import Database, LostError
from sqlalchemy import select

from databases import SERVER
from test_database import at_once, opens

DATA = Path(__file__).parent / "data"
SCHEMA_VERSION_1 = DATA / f"database-version-1-{'postgresql' if SERVER else 'sqlite'}.sql"
LATER = ("glidein_core_time", "glidein_reading", "job_core_time", "job_reading")  # tables of later revisions
on_sqlite = pytest.mark.skipif(bool(SERVER), reason="about SQLite's file")


@pytest.fixture
def engine(new_database_url):
    engine = sqlalchemy.create_engine(new_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def version_1(engine):
    """Return a database as the last version without Alembic made it, with rows in every table."""
    with engine.begin() as connection:
        for statement in SCHEMA_VERSION_1.read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    return engine


ADDED = {"ended_glidein": {"entry", "shape", "reason"}}
"""The columns that tables of schema_version 1 got since."""


def rows(engine):
    """Return {table: its rows, sorted} in the columns of version 1, except the tables of revisions."""
    found = {}
    with engine.connect() as connection:
        for name, table in schema.metadata.tables.items():
            if name not in ("schema_version", *LATER):
                columns = [column for column in table.c if column.name not in ADDED.get(name, ())]
                found[name] = sorted(tuple(row) for row in connection.execute(select(*columns).order_by(*columns)))
    return found


def revision(engine):
    with engine.connect() as connection:
        return upgrade.revision_of(connection)


def set_revision(engine, value):
    with engine.begin() as connection:
        connection.execute(schema.alembic_version.update().values(version_num=value))


@pytest.fixture
def broken_upgrade(monkeypatch):
    """Make a statement of the upgrade fail after the migrations have succeeded."""
    run = command.upgrade

    def fails(config, to):
        run(config, to)
        config.attributes["connection"].exec_driver_sql("SELECT no_such_column FROM token")

    monkeypatch.setattr(command, "upgrade", fails)


def test_the_migrations_make_the_tables_of_the_schema(database, engine):
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []


def test_an_upgraded_database_has_the_tables_of_the_schema(version_1, new_database_url):
    Database(new_database_url).close()
    with version_1.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        # The SERIAL key of schema_version had a sequence in version 1, too.
        assert compare_metadata(context, schema.metadata) == []


def test_the_schema_names_the_newest_revision(database, engine):
    assert revision(engine) == schema.REVISION == upgrade.known_revisions()[0]
    assert upgrade.known_revisions()[-1] == upgrade.BASELINE


def test_version_1_had_rows_in_every_table(version_1):
    assert [name for name, found in rows(version_1).items() if not found] == []


def test_an_upgrade_of_version_1_keeps_every_row_of_a_site(version_1, new_database_url):
    before = rows(version_1)
    Database(new_database_url).close()
    # Before version 1, clients without a token were already kept only in memory.
    before["monitoring"] = [row for row in before["monitoring"] if row[1] is not None]
    assert rows(version_1) == before
    assert revision(version_1) == schema.REVISION


def test_an_upgrade_of_version_1_creates_tables_added_within_it(version_1, new_database_url):
    with version_1.begin() as connection:
        for table in (schema.site_owner, schema.passed_over, schema.ended_glidein):
            table.drop(connection)
    opened = Database(new_database_url)
    opened.check()
    opened.close()
    with version_1.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, schema.metadata) == []


def test_versions_before_alembic_refuse_the_new_database(version_1, new_database_url, tmp_path):
    """Check that they refuse it, because they accept schema_version 1 only and write 1 into an empty table."""
    Database(new_database_url).close()
    with version_1.connect() as connection:
        assert connection.execute(select(schema.schema_version)).all() == [(2,)]


def test_a_second_start_changes_nothing(version_1, new_database_url, caplog):
    caplog.set_level("INFO")
    Database(new_database_url).close()
    assert [record.message for record in caplog.records if "upgraded" in record.message] != []
    caplog.clear()
    Database(new_database_url).close()
    assert caplog.records == []


def test_many_processes_can_open_an_old_database_at_once(version_1, new_database_url):
    version_1.dispose()
    assert at_once(4, opens, new_database_url) == [""] * 4
    assert revision(version_1) == schema.REVISION


@on_sqlite
def test_a_copy_of_the_file_is_kept_before_an_upgrade(version_1, new_database_url, tmp_path):
    before = rows(version_1)
    umask = os.umask(0)
    try:
        Database(new_database_url).close()
    finally:
        os.umask(umask)
    copy = tmp_path / "state.db.revision-0001"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("state.db.*")) == [copy.name]
    found = sqlalchemy.create_engine(f"sqlite:///{copy}")
    assert rows(found) == before
    with found.connect() as connection:
        assert connection.execute(select(schema.schema_version)).all() == [(1,)]


@on_sqlite
def test_a_new_database_and_an_upgraded_one_are_made_by_the_same_statements(version_1, new_database_url, tmp_path):
    """Compare the statements, because compare_metadata ignores WITHOUT ROWID, which the history's size depends on."""
    Database(new_database_url).close()
    Database(f"sqlite:///{tmp_path}/new.db").close()
    made = []
    for name in ("state.db", "new.db"):
        connection = sqlite3.connect(tmp_path / name)
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        made.append({table: "".join(sql.split()) for table, sql in rows})
        connection.close()
    assert made[0] == made[1]
    assert [table for table, sql in made[0].items() if sql.endswith("WITHOUTROWID")] != []


@on_sqlite
def test_a_restored_copy_is_upgraded_again(version_1, new_database_url, tmp_path):
    Database(new_database_url).close()
    upgraded = rows(version_1)
    version_1.dispose()
    for path in tmp_path.glob("state.db-*"):
        path.unlink()
    (tmp_path / "state.db.revision-0001").replace(tmp_path / "state.db")
    Database(new_database_url).close()
    assert rows(version_1) == upgraded
    assert (tmp_path / "state.db.revision-0001").exists()


@on_sqlite
def test_no_copy_is_made_of_a_new_database(database, tmp_path):
    assert list(tmp_path.glob("state.db.*")) == []


@on_sqlite
def test_an_upgrade_requires_a_copy(version_1, new_database_url, tmp_path, monkeypatch):
    before = rows(version_1)
    (tmp_path / "state.db.revision-0001").mkdir()
    (tmp_path / "state.db.revision-0001" / "file").write_text("in the way")
    with pytest.raises(UnusableError, match=r"state\.db\.revision-0001, the copy .* cannot be written.*nothing was"):
        Database(new_database_url)
    assert (rows(version_1), revision(version_1)) == (before, None)
    assert list(tmp_path.glob("*.partial")) == []


def test_a_failed_upgrade_leaves_the_old_state(version_1, new_database_url, broken_upgrade):
    before = rows(version_1)
    with pytest.raises(
        UnusableError, match=f"the upgrade from revision 0001 to revision {schema.REVISION} failed, and nothing was"
    ):
        Database(new_database_url)
    assert (rows(version_1), revision(version_1)) == (before, None)


def test_an_upgrade_that_failed_can_be_tried_again(version_1, new_database_url, broken_upgrade, monkeypatch):
    with pytest.raises(UnusableError):
        Database(new_database_url)
    monkeypatch.undo()
    Database(new_database_url).close()
    assert revision(version_1) == schema.REVISION


def test_an_older_revision_is_upgraded(engine, new_database_url):
    config = Config()
    config.set_main_option("script_location", str(upgrade.MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, upgrade.BASELINE)
    assert revision(engine) == upgrade.BASELINE
    Database(new_database_url).close()
    assert revision(engine) == schema.REVISION


def test_core_hours_of_jobs_stay_when_vos_are_added(engine, new_database_url):
    config = Config()
    config.set_main_option("script_location", str(upgrade.MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        connection.exec_driver_sql("INSERT INTO job_core_time VALUES (1, 0, 'PSC', 'RM', 'alice@pool', 'physics', 60)")
    Database(new_database_url).close()
    with engine.connect() as connection:
        found = connection.execute(select(schema.job_core_time)).all()
    assert [tuple(row) for row in found] == [(1, 0, "PSC", "RM", "alice@pool", "physics", "", 60)]


def test_a_newer_revision_is_refused_with_the_remedy(database, database_url, engine, tmp_path):
    before = rows(engine)
    set_revision(engine, "9999")
    with pytest.raises(ConfigError) as caught:
        Database(database_url)
    message = str(caught.value)
    assert not isinstance(caught.value, UnusableError)
    name = "the database" if SERVER else f"{tmp_path}/state.db"
    assert message.startswith(f"state.database: {name} has the revision '9999', which is unknown to this version")
    assert f"the newest revision of this version is {schema.REVISION}" in message
    assert "Install the version that upgraded the database" in message
    assert "restore a copy" in message
    assert "\n" not in message
    assert (rows(engine), revision(engine)) == (before, "9999")


def test_an_unknown_version_from_before_alembic_is_refused(version_1, new_database_url):
    with version_1.begin() as connection:
        connection.execute(schema.schema_version.update().values(version=7))
    with pytest.raises(ConfigError, match="has schema_version 7, which is unknown to this version of glidein-demand"):
        Database(new_database_url)


def test_tables_of_unknown_origin_are_refused(version_1, new_database_url):
    with version_1.begin() as connection:
        schema.schema_version.drop(connection)
    with pytest.raises(ConfigError, match="neither alembic_version nor schema_version"):
        Database(new_database_url)


def test_tables_that_are_missing_are_made_again_by_the_next_start(database, database_url):
    with database.begin() as connection:
        schema.lease.drop(connection)
    with pytest.raises(LostError, match="lost the tables lease while the server ran"):
        database.check()
    Database(database_url).check()
    database.check()


def test_a_running_server_notices_an_upgrade_by_another_version(database, engine):
    set_revision(engine, "9999")
    with pytest.raises(LostError, match="has revision 9999 now, and this server uses revision"):
        database.check()


@on_sqlite
def test_a_server_without_the_new_tables_notices_the_upgrade_of_its_file(version_1, new_database_url, tmp_path):
    """Assert that a version before Alembic reads schema_version and ends; systemd then starts the installed version."""
    old = sqlite3.connect(tmp_path / "state.db")
    assert old.execute("SELECT version FROM schema_version").fetchone() == (1,)
    Database(new_database_url).close()
    assert old.execute("SELECT version FROM schema_version").fetchone() == (2,)
    old.close()


def test_without_an_upgrade_alembic_is_not_imported(database, database_url):
    """Assert that commands skip the import, which would delay their start."""
    code = "import sys; from glidein_demand.store.database import Database; Database(sys.argv[1]).close();"
    code += "print('alembic' in sys.modules)"
    command = [sys.executable, "-c", code, database_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
