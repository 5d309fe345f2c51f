# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import multiprocessing
import os
import stat
from types import SimpleNamespace

import pytest
from glidein_demand.config import ConfigError, UnusableError
from glidein_demand.store import schema
from glidein_demand.store.database import Database, upsert
from glidein_demand.store.schema import lease_limit as _limits
from glidein_demand.store.tokens import digest
from sqlalchemy import MetaData, func, select

from conftest import TOKEN, group, site_report
from databases import SERVER

_on_sqlite = pytest.mark.skipif(bool(SERVER), reason="about SQLite's file")


def opens(url, start, results):
    """Open the database as one of several processes that do so at the same time."""
    start.wait(300)
    try:
        Database(url).close()
        results.put("")
    except Exception as error:
        results.put(repr(error))


def adds(url, start, results, times):
    database = Database(url)
    start.wait(300)
    for _unused in range(times):
        with database.begin() as connection:
            count = connection.execute(select(func.coalesce(func.sum(_limits.c.jobs), 0))).scalar()
            connection.execute(upsert(connection, _limits, ["site"]), [{"site": "A", "jobs": count + 1}])
    database.close()
    results.put("")


def at_once(count, target, *arguments):
    """Run `target` in `count` processes that start together; return their results."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(count), context.Queue()
    processes = [
        context.Process(target=target, args=(arguments[0], start, results, *arguments[1:])) for _n in range(count)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=300) for _process in processes]
    for process in processes:
        process.join(60)
    return found


def test_a_new_database_can_be_opened_by_many_processes_at_once(new_database_url):
    assert at_once(6, opens, new_database_url) == [""] * 6


def test_a_database_is_opened_while_another_process_writes(database, database_url):
    with database.begin():
        Database(database_url).close()


def test_tables_that_are_missing_are_made_again_by_the_next_start(database, database_url):
    with database.begin() as connection:
        schema.lease.drop(connection)
        connection.execute(_limits.insert(), [{"site": "A", "jobs": 1}])
    Database(database_url).close()
    with database.read() as connection:
        assert connection.execute(select(schema.lease)).all() == []
        assert connection.execute(select(_limits.c.jobs)).scalar() == 1


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "revision 9999;"),
        ("DROP TABLE alembic_version", "revision None;"),
    ],
)
def test_the_tables_of_another_version_are_refused_with_the_remedy(database, database_url, statement, found):
    with database.begin() as connection:
        connection.execute(_limits.insert(), [{"site": "A", "jobs": 1}])
        connection.exec_driver_sql(statement)
    with pytest.raises(ConfigError) as caught:
        Database(database_url)
    message = str(caught.value)
    assert not isinstance(caught.value, UnusableError)
    assert f"has the tables of another version of glidein-demand: {found} this version uses revision" in message
    assert ("name an empty one" if SERVER else "state.db with its -wal and -shm away") in message
    assert "run the role glidein.ops.demand_server again" in message
    assert "\n" not in message
    with database.read() as connection:
        assert connection.execute(select(_limits.c.jobs)).scalar() == 1


def test_a_database_whose_column_was_renamed_since_is_refused(database, database_url):
    before = MetaData()
    for table in schema.metadata.sorted_tables:
        table.to_metadata(before)
    assert schema.revision(before) == schema.REVISION
    before.tables["lease"].c.jobs.name = "number"
    with database.begin() as connection:
        connection.execute(schema.alembic_version.update().values(version_num=schema.revision(before)))
    with pytest.raises(ConfigError, match="has the tables of another version"):
        Database(database_url)


def test_writers_in_many_processes_take_turns(database_url):
    assert at_once(4, adds, database_url, 50) == [""] * 4
    with Database(database_url).read() as connection:
        assert connection.execute(select(_limits.c.jobs)).scalar() == 200


def test_a_transaction_within_another_one_is_a_part_of_it(database):
    with pytest.raises(RuntimeError), database.begin():
        with database.begin() as connection:
            connection.execute(_limits.insert(), [{"site": "A", "jobs": 1}])
        raise RuntimeError
    with database.begin() as connection:
        assert connection.execute(select(func.count()).select_from(_limits)).scalar() == 0


def test_reading_does_not_wait_for_writers_and_is_consistent(database):
    with database.read() as reader:
        assert reader.execute(select(func.count()).select_from(_limits)).scalar() == 0
        with database.begin() as writer:
            writer.execute(_limits.insert(), [{"site": "A", "jobs": 1}])
            with database.read() as other:
                assert other.execute(select(func.count()).select_from(_limits)).scalar() == 0
        assert reader.execute(select(func.count()).select_from(_limits)).scalar() == 0
    with database.read() as later:
        assert later.execute(select(func.count()).select_from(_limits)).scalar() == 1


def test_an_upsert_inserts_replaces_and_adds(database):
    def rows(jobs, add=()):
        with database.begin() as connection:
            statement = upsert(connection, _limits, ["site"], add)
            connection.execute(statement, [{"site": site, "jobs": jobs} for site in ("A", "B")])
            return [tuple(row) for row in connection.execute(select(_limits).order_by(_limits.c.site))]

    assert rows(5) == [("A", 5), ("B", 5)]
    assert rows(3) == [("A", 3), ("B", 3)]
    assert rows(4, add=["jobs"]) == [("A", 7), ("B", 7)]


def test_an_upsert_of_keys_only_keeps_the_existing_row(database):
    with database.begin() as connection:
        statement = upsert(connection, schema.alembic_version, ["version_num"])
        connection.execute(statement, [{"version_num": schema.REVISION}])
        assert connection.execute(select(schema.alembic_version)).all() == [(schema.REVISION,)]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/var/lib/state.db", "not a database URL"),
        ("nosuch://user:s3cret@host/name", "nosuch is not supported"),
        ("mysql://user:s3cret@host/name", "mysql is not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:////nonexistent/state.db", "No such file or directory"),
        ("postgresql+psycopg2://user:s3cret@127.0.0.1:1/name", "driver is missing"),
    ],
)
def test_the_error_of_an_invalid_url_is_one_line_without_its_password(url, words):
    with pytest.raises(ConfigError) as caught:
        Database(url)
    message = str(caught.value)
    assert message.startswith("state.database: ")
    assert words in message
    assert "s3cret" not in message
    assert "\n" not in message


@_on_sqlite
def test_only_the_owner_can_read_its_files(database, tmp_path):
    umask = os.umask(0)
    try:
        made = Database(f"sqlite:///{tmp_path}/other.db")
        with made.begin() as connection:
            connection.execute(_limits.insert(), [{"site": "A", "jobs": 1}])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("other.db*")}
    finally:
        os.umask(umask)
    assert modes == {"other.db": 0o600, "other.db-wal": 0o600, "other.db-shm": 0o600}


def remove(folder):
    for path in folder.glob("state.db*"):
        path.unlink()


def replace(folder):
    Database(f"sqlite:///{folder}/new.db").close()
    (folder / "new.db").replace(folder / "state.db")


def damage(folder):
    """Overwrite the file in place, as a broken disk or an incorrect copy does."""
    for path in folder.glob("state.db-*"):
        path.write_bytes(b"")
    (folder / "state.db").write_bytes(b"x" * (folder / "state.db").stat().st_size)


@_on_sqlite
@pytest.mark.parametrize(
    ("lose", "words"),
    [
        (remove, ["state.db was removed or replaced while the server ran", "restore a copy"]),
        (replace, ["state.db was removed or replaced while the server ran", "restore a copy"]),
        (damage, ["The file is damaged", "restore a copy", "state.db-wal"]),
    ],
)
def test_a_lost_or_damaged_file_is_an_error_of_every_call_and_of_the_health(new_service, tmp_path, lose, words):
    service = new_service()
    service.read(group())
    assert service.get("/healthz").status_code == 200
    if lose is damage:
        service.server.database.close()  # no page of the file is cached
    lose(tmp_path)
    for response in (service.call("report", site_report(), TOKEN), service.call("get_demand")):
        assert (response.status_code, "see the server's log" in response.json["error"]["data"]) == (503, True)
    assert service.get("/").status_code == 503
    for token in (None, TOKEN):
        health = service.get("/healthz", token)
        assert (health.status_code, health.json["status"]) == (503, "no database")
    problem = service.server.database.problem()
    assert [word for word in (*words, "run the role glidein.ops.demand_server again") if word not in problem] == []


@_on_sqlite
def test_a_file_that_comes_back_is_used_again(new_service, tmp_path):
    service = new_service()
    service.read(group())
    (tmp_path / "state.db").rename(tmp_path / "moved")
    assert service.get("/healthz").status_code == 503
    (tmp_path / "moved").rename(tmp_path / "state.db")
    assert service.get("/healthz").status_code == 200


def test_missing_tables_are_an_error_of_the_health(database):
    assert database.problem() == ""
    with database.begin() as connection:
        schema.metadata.drop_all(connection)
    assert "alembic_version" in database.problem()


@_on_sqlite
def test_a_full_disk_makes_the_health_bad_until_a_write_succeeds(new_service, monkeypatch, caplog):
    service = new_service()
    service.read(group())
    report = site_report(entries=[{**entry, "entry": f"e{n}"} for entry in site_report()["entries"] for n in range(90)])
    for pages, code, healthy in ((1, 503, "no database"), (10**6, 200, "ok")):
        with service.server.database.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        assert service.call("report", report, TOKEN).status_code == code
        # Without a change there is nothing to write.
        assert service.call("lease", {"site": "PSC", "entries": {}, "ttl_s": 60}, TOKEN).status_code == 200
        assert service.get("/healthz").json["status"] == healthy
    assert "state.db cannot be written: database or disk is full. Check the free space" in caplog.text
    # A small write still fits into the write-ahead log.
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=100_000))
    assert service.call("report", site_report(), TOKEN).status_code == 200
    assert service.get("/healthz").json["status"] == "no database"


def test_the_log_of_a_failed_statement_has_no_parameters(new_service, database_url, caplog):
    service = new_service(url=database_url)
    with service.server.database.begin() as connection:
        schema.token.drop(connection)
    assert service.get("/", TOKEN).status_code == 503
    (record,) = caplog.records
    assert "database: " in record.getMessage()
    assert digest(TOKEN) not in record.getMessage()


@_on_sqlite
@pytest.mark.parametrize("words", ["file is not a database", "restore a copy of", "run the role glidein.ops.demand"])
def test_a_damaged_file_is_refused_at_the_start_with_the_remedy(tmp_path, words):
    (tmp_path / "state.db").write_text("this is a text, and long enough to be taken for something else " * 20)
    with pytest.raises(UnusableError, match=words):
        Database(f"sqlite:///{tmp_path}/state.db")
