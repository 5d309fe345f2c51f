# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures with a database for each test: `new_database_url`, `database_url`, and `database`, which is open.

SQLite in the test's directory, unless the environment variable GLIDEIN_TEST_DATABASE has the URL of another database
that tests may change freely, such as postgresql+psycopg://postgres@127.0.0.1:5432/postgres (with psycopg in the virtual
environment). Each test gets a schema of its own there, which is removed at its end.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time

import pytest
import sqlalchemy
from glidein_demand.store.database import Database

NOW = 1_795_211_273
SERVER = os.environ.get("GLIDEIN_TEST_DATABASE", "")


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """Return a SQLite file with all tables and no row. A copy takes a tenth of the time that a new one takes."""
    path = tmp_path_factory.mktemp("empty") / "state.db"
    Database(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def database_url(new_database_url, tmp_path, empty_database):
    """Return the URL of a database with all tables."""
    if SERVER:
        Database(new_database_url).close()
    else:
        shutil.copy2(empty_database, tmp_path / "state.db")
    return new_database_url


@pytest.fixture
def new_database_url(tmp_path):
    """Return the URL of a database without tables."""
    if not SERVER:
        yield f"sqlite:///{tmp_path}/state.db"
        return
    schema = f"test_{secrets.token_hex(8)}"
    engine = sqlalchemy.create_engine(SERVER, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    url = sqlalchemy.make_url(SERVER).update_query_dict({"options": f"-csearch_path={schema}"})
    yield url.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    engine.dispose()


@pytest.fixture
def database(database_url):
    opened = Database(database_url)
    yield opened
    opened.close()


class Clock:
    """A clock that only the test advances."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock(NOW)


def becomes(is_so, seconds=60):
    """Return True as soon as `is_so()` is true; return False if it is not within `seconds`."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
