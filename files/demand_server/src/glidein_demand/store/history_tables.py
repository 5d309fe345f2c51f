# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of the history, and what their rows have."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, String, Table, Text

from .database import metadata

POOL_FIELDS = (
    "idle_jobs", "idle_cores", "glidein_cores", "glidein_cores_claimed", "other_cores", "other_cores_claimed",
)  # fmt: skip
SITE_FIELDS = ("queued", "running", "registered", "launched", "cpus", "cpus_claimed")

ALL_SITES = 0  # in place of a site's id: the sum over all sites, so that "the others" need no reading of all of them
FINEST = 0

pool_rows = Table(
    "history_pool",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("samples", Integer, nullable=False),
    *(Column(field, Float) for field in POOL_FIELDS),
    sqlite_with_rowid=False,
)
# Rows of one site and level lie side by side: a series is read in one go. Names are kept apart: a million rows each.
site_rows = Table(
    "history_site",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("site", Integer, primary_key=True, autoincrement=False),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("samples", Integer, nullable=False),
    *(Column(field, Float) for field in SITE_FIELDS),
    sqlite_with_rowid=False,
)
site_names = Table(
    "history_site_name",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    # How many launched glideins are in the records already, of all that the site's reports ever named.
    Column("launched", BigInteger, nullable=False, default=0),
)
work_sums = Table(
    "history_work",
    metadata,
    Column("week", BigInteger, primary_key=True, autoincrement=False),
    Column("glidein_core_s", Float, nullable=False),
    Column("other_core_s", Float, nullable=False),
)
last_record = Table(
    "history_last_record",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("time", Float, nullable=False),
    Column("glidein_cores", Float),
    Column("other_cores", Float),
)
wait_counts = Table(
    "history_wait",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("jobs", BigInteger, nullable=False),
)
wait_markers = Table(
    "history_wait_marker",
    metadata,
    Column("schedd", Text, primary_key=True),
    Column("marker", Text, nullable=False),
)
