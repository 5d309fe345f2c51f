# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a database that is lost or damaged while the server runs: detected, reported, repaired by the next start."""

import logging
import sqlite3
from types import SimpleNamespace

import pytest
from glidein_demand.config import UnusableError
from glidein_demand.store.database import Database, LostError
from glidein_demand.store.schema import metadata
from glidein_demand.store.tokens import digest

from conftest import TOKEN, group, site_report
from databases import SERVER
from running import Running

on_sqlite = pytest.mark.skipif(bool(SERVER), reason="about SQLite's file")


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
    with (folder / "state.db").open("r+b") as file:
        file.write(b"x" * (folder / "state.db").stat().st_size)


@on_sqlite
@pytest.mark.parametrize(("lose", "words"), [(remove, "removed or replaced"), (replace, "removed or replaced")])
def test_a_file_that_is_removed_or_replaced_is_noticed_with_the_remedy(database, tmp_path, lose, words):
    database.check()
    lose(tmp_path)
    with pytest.raises(LostError, match=words) as caught:
        database.check()
    assert "restore a copy" in str(caught.value)
    assert "run the role glidein.ops.demand_server again" in str(caught.value)


def test_missing_tables_are_detected(database):
    with database.begin() as connection:
        metadata.drop_all(connection)
    with pytest.raises(LostError, match="lost the tables"):
        database.check()


@on_sqlite
def test_the_health_check_reports_a_lost_database(new_service, tmp_path, caplog):
    service = new_service()
    service.read(group())
    assert (service.server.watch.check(), service.get("/healthz").status_code) == (False, 200)
    remove(tmp_path)
    assert [service.server.watch.check(), service.server.watch.check()] == [True, True]
    health = service.get("/healthz")
    assert (health.status_code, health.json["status"]) == (503, "no database")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "restore a copy" in line


@on_sqlite
def test_a_damaged_file_fails_the_health_check_without_a_restart(new_service, tmp_path, caplog):
    service = new_service()
    service.read(group())
    service.server.database.close()
    damage(tmp_path)
    response = service.call("report", site_report(), TOKEN)
    assert (response.status_code, "see the server's log" in response.json["error"]["data"]) == (503, True)
    assert service.server.watch.check() is False
    assert service.get("/healthz").json["status"] == "no database"
    assert f"move it away together with {tmp_path}/state.db-wal" in caplog.text


def test_the_log_of_a_failed_statement_has_no_parameters(new_service, database_url, caplog):
    service = new_service(url=database_url)
    with service.server.database.begin() as connection:
        metadata.tables["token"].drop(connection)
    assert service.get("/", TOKEN).status_code == 503
    (record,) = caplog.records
    assert "database: " in record.getMessage()
    assert digest(TOKEN) not in record.getMessage()


@on_sqlite
def test_a_full_disk_makes_the_health_bad_until_a_write_succeeds(new_service, caplog):
    service = new_service()
    service.read(group())
    for pages, code, healthy in ((1, 503, "no database"), (10**6, 200, "ok")):
        with service.server.database.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        report = site_report(
            entries=[{**entry, "entry": f"e{n}"} for entry in site_report()["entries"] for n in range(90)]
        )
        assert service.call("report", report, TOKEN).status_code == code
        assert service.server.watch.check() is False
        assert service.get("/healthz").json["status"] == healthy
    assert "state.db cannot be written: database or disk is full. Check the free space" in caplog.text


@on_sqlite
def test_a_small_write_that_still_fits_on_a_full_disk_does_not_end_the_problem(new_service, monkeypatch):
    service = new_service()
    service.read(group())
    service.server.database.failed_write = "database or disk is full"
    for free, status in ((100_000, "no database"), (10**9, "ok")):
        monkeypatch.setattr("shutil.disk_usage", lambda _path, free=free: SimpleNamespace(free=free))
        assert service.call("report", site_report(), TOKEN).status_code == 200
        assert service.server.watch.check() is False
        assert service.get("/healthz").json["status"] == status


@on_sqlite
def test_the_health_is_good_again_when_the_file_is_back(new_service, tmp_path):
    service = new_service()
    service.read(group())
    (tmp_path / "state.db").rename(tmp_path / "moved")
    assert (service.server.watch.check(), service.get("/healthz").status_code) == (True, 503)
    (tmp_path / "moved").rename(tmp_path / "state.db")
    assert (service.server.watch.check(), service.get("/healthz").status_code) == (False, 200)


@on_sqlite
def test_a_damaged_file_is_refused_at_the_start_with_the_remedy(tmp_path):
    Database(f"sqlite:///{tmp_path}/state.db").close()
    damage(tmp_path)
    with pytest.raises(UnusableError, match="restore a copy of") as caught:
        Database(f"sqlite:///{tmp_path}/state.db")
    assert "run the role glidein.ops.demand_server again" in str(caught.value)


@on_sqlite
def test_the_server_ends_and_works_after_systemd_restarts_it(tmp_path):
    server = Running(tmp_path, ["PSC"])
    with server:
        remove(tmp_path)
        assert server.process.wait(60) == 1
        assert "restore a copy" in server.stderr
    with server:
        assert server.get("/")[0] == 200
        assert "no token exists" in server.stderr
        assert sqlite3.connect(tmp_path / "state.db").execute("SELECT count(*) FROM token").fetchone() == (0,)
