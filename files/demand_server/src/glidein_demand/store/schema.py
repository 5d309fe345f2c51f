# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All tables of the database.

A table variable has the table's name. Only the module of this package that a comment names writes to a table; all
store their markers.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

metadata = MetaData()


def _key(*names: str) -> list[Column[str]]:
    return [Column(name, String(64), primary_key=True) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in names]


# database.py. The table and its constraint are as Alembic makes them: the first change of the tables after a release
# comes with Alembic, which finds the revision here.
alembic_version = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

# database.py: the point up to which a source is counted, as JSON. It is stored in the transaction that counts.
marker = Table(
    "marker",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("source", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# glideins.py
GLIDEIN_TIMES = ("running", "wait_s", "checked_at", "left", "registered", "started", "last_update", "missing_since")

glidein = Table(
    "glidein",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("batch_id", String(128), primary_key=True),
    Column("entry", String(64), nullable=False),
    Column("shape", String(64), nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in GLIDEIN_TIMES),
    Index("glidein_first_seen", "first_seen"),
)
entry_history = Table(
    "entry_history",
    metadata,
    *_key("site", "entry", "shape"),
    Column("received", BigInteger, nullable=False),
    Column("listed_at", BigInteger),
    Column("plans", Text, nullable=False),
)
ended_glidein = Table(
    "ended_glidein",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("batch_id", String(128), nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("registered", BigInteger),
    Column("ended", BigInteger, nullable=False),
    Column("exit_status", Integer, nullable=False),
    Column("good", BigInteger, nullable=False),  # jobs that did not fail
    Column("received", BigInteger, nullable=False),
    Column("entry", String(64), nullable=False),
    Column("shape", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Index("ended_glidein_received", "received"),
)
# The numbers of all ended glideins and of their jobs, for counters in /metrics.
ended_total = Table(
    "ended_total",
    metadata,
    *_key("site", "entry"),
    *_numbers("glideins", "jobs", "jobs_failed"),
)

# core_hours.py
glidein_core_hours = Table(
    "glidein_core_hours",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    *_key("site", "entry", "shape"),
    Column("core_s", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
# The running glideins of the last report. The next report's core-seconds are computed from them.
glidein_reading = Table(
    "glidein_reading",
    metadata,
    *_key("site", "entry", "shape"),
    *_numbers("received", "cpus", "running"),
)
job_core_hours = Table(
    "job_core_hours",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("site", String(64), primary_key=True),  # values.OTHER_MACHINES, or a site
    Column("entry", String(64), primary_key=True),
    Column("shape", String(64), primary_key=True),
    Column("user", String(128), primary_key=True),
    Column("project", String(128), primary_key=True),
    Column("vo", String(128), primary_key=True),
    Column("core_s", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# history.py. jobs_started and start_wait_s are sums of 20 minutes (schedds.Starts): their quotient is the mean wait.
POOL_FIELDS = ("idle_jobs", "idle_cores", "glidein_cores", "glidein_cores_claimed", "jobs_started", "start_wait_s")
SITE_FIELDS = ("queued", "running", "registered")

ALL_SITES = ""
"""In place of a site's name: the pool, and the sum over all sites, which a sum of "other sites" needs."""

# The key's order stores the rows of one site and level side by side: a series is one range of up to a million rows.
history = Table(
    "history",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("site", String(64), primary_key=True),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    *(Column(field, Float) for field in (*SITE_FIELDS, *POOL_FIELDS)),
    sqlite_with_rowid=False,
)

# leases.py
lease = Table(
    "lease",
    metadata,
    *_key("site", "entry", "group"),
    *_numbers("jobs", "expires"),
)
lease_limit = Table(
    "lease_limit",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("jobs", BigInteger, nullable=False),
)
site_owner = Table(
    "site_owner",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("deployment", String(64), nullable=False),
    *_numbers("since", "until"),
)
# It has one row while the server is paused.
pause = Table(
    "pause",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("since", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
)

# entries.py
machine_ad = Table(
    "machine_ad",
    metadata,
    *_key("site", "entry"),
    Column("as_of", BigInteger, nullable=False),
    Column("by_token", Boolean, nullable=False),
    Column("ad", Text, nullable=False),
)
passed_over = Table(
    "passed_over",
    metadata,
    *_key("site", "entry", "shape", "group"),
    Column("times", Integer, nullable=False),
    Column("until", BigInteger, nullable=False),
)

# reports.py
report = Table(
    "report",
    metadata,
    Column("site", String(64), primary_key=True),
    Column("received", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("launched", BigInteger, nullable=False),
)

# tokens.py
token = Table(
    "token",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("origin", String(16), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("created", BigInteger, nullable=False),
    Column("last_used", BigInteger),
)


def revision(tables: MetaData) -> str:
    """Return a hash of the names and types of the tables and their columns."""
    columns = [f"{table.name}.{one.name} {one.type}" for table in tables.sorted_tables for one in table.columns]
    return hashlib.sha256("\n".join(columns).encode()).hexdigest()[:12]


REVISION = revision(metadata)
"""The revision of these tables, which database.py stores in a new database. Until the first release, it is a hash."""
