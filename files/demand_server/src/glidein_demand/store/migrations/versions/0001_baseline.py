# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of schema_version 1, the last version without Alembic. Do not change this file: databases have them.

Existing tables stay as they are: a database of schema_version 1 has no revision, and goes through this file, too. It
may lack the tables that were added within schema_version 1.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, String, Text
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables that do not exist."""
    _create_table("schema_version", Column("version", Integer, primary_key=True))
    _create_table(
        "glidein",
        *_keys(site=String(64), batch_id=String(128)),
        *_required(entry=String(64), shape=String(64), first=BigInteger),
        *_optional(BigInteger, "running", "wait_s", "looked", "left", "registered", "started", "heard", "gone"),
    )
    op.create_index("glidein_first", "glidein", ["first"], if_not_exists=True)
    _create_table(
        "entry_history",
        *_keys(site=String(64), entry=String(64), shape=String(64)),
        *_required(received=BigInteger),
        *_optional(BigInteger, "told"),
        *_required(plans=Text),
    )
    _create_table(
        "work",
        *_keys(level=Integer, time=BigInteger, site=String(64), entry=String(64), shape=String(64)),
        *_required(
            glideins=BigInteger,
            granted_core_s=BigInteger,
            busy_core_s=BigInteger,
            jobs=BigInteger,
            jobs_failed=BigInteger,
        ),
        sqlite_with_rowid=False,
    )
    _create_table(
        "ended_glidein",
        *_keys(site=String(64), name=String(200)),
        *_required(batch_id=String(128), started=BigInteger),
        *_optional(BigInteger, "registered"),
        *_required(ended=BigInteger),
        *_optional(Integer, "exit_status"),
        *_required(good=BigInteger, received=BigInteger),
    )
    op.create_index("ended_glidein_received", "ended_glidein", ["received"], if_not_exists=True)
    _create_table("summaries_until", *_keys(site=String(64)), *_required(until=Float))
    _create_table(
        "history_pool",
        *_keys(level=Integer, time=BigInteger),
        *_required(samples=Integer),
        *_optional(
            Float,
            "idle_jobs",
            "idle_cores",
            "glidein_cores",
            "glidein_cores_claimed",
            "other_cores",
            "other_cores_claimed",
        ),
        sqlite_with_rowid=False,
    )
    _create_table(
        "history_site",
        *_keys(level=Integer, site=Integer, time=BigInteger),
        *_required(samples=Integer),
        *_optional(Float, "queued", "running", "registered", "launched", "cpus", "cpus_claimed"),
        sqlite_with_rowid=False,
    )
    _create_table(
        "history_site_name",
        Column("id", Integer, primary_key=True),
        Column("name", String(64), nullable=False, unique=True),
        *_required(launched=BigInteger),
    )
    _create_table("history_work", *_keys(week=BigInteger), *_required(glidein_core_s=Float, other_core_s=Float))
    _create_table(
        "history_last_record",
        *_keys(id=Integer),
        *_required(time=Float),
        *_optional(Float, "glidein_cores", "other_cores"),
    )
    _create_table("history_wait", *_keys(day=BigInteger, bucket=Integer), *_required(jobs=BigInteger))
    _create_table("history_wait_marker", *_keys(schedd=Text), *_required(marker=Text))
    _create_table("lease_limit", *_keys(site=String(64)), *_required(jobs=BigInteger))
    _create_table(
        "lease",
        *_keys(site=String(64), entry=String(64), group=String(64)),
        *_required(jobs=BigInteger, expires=BigInteger),
    )
    _create_table("lease_version", *_keys(id=Integer), *_required(version=BigInteger))
    _create_table(
        "machine_sample",
        *_keys(site=String(64), entry=String(64)),
        *_required(as_of=BigInteger, by_token=Boolean, ad=Text),
    )
    _create_table(
        "passed_over",
        *_keys(site=String(64), entry=String(64), shape=String(64), group=String(64)),
        *_required(times=Integer, until=BigInteger),
    )
    _create_table(
        "switch",
        *_keys(id=Integer),
        *_required(paused=Boolean),
        *_optional(BigInteger, "since"),
        *_required(reason=Text, by=Text),
    )
    _create_table("report", *_keys(site=String(64)), *_required(received=BigInteger, body=Text, launched=BigInteger))
    _create_table(
        "monitoring",
        *_keys(uuid=String(200)),
        *_optional(String(64), "site"),
        *_required(received=BigInteger, metrics=Text),
    )
    _create_table(
        "site_owner",
        *_keys(site=String(64)),
        *_required(deployment=String(64), since=BigInteger, until=BigInteger),
    )
    _create_table(
        "token",
        *_keys(name=String(64)),
        *_required(kind=String(16), origin=String(16)),
        Column("digest", String(64), nullable=False, unique=True),
        *_required(created=BigInteger),
        *_optional(BigInteger, "last_used"),
    )


def _create_table(name: str, *columns: Column[Any], **options: Any) -> None:
    op.create_table(name, *columns, if_not_exists=True, **options)


def _keys(**types: TypeEngine[Any] | type[TypeEngine[Any]]) -> list[Column[Any]]:
    """Return the columns of a primary key whose values the program gives."""
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in types.items()]


def _required(**types: TypeEngine[Any] | type[TypeEngine[Any]]) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name, kind in types.items()]


def _optional(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]
