# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of core-hours: of glideins by site, entry and shape, and of jobs by site, entry, user and project."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "glidein_core_time",
        *_keys(level=sa.Integer(), time=sa.BigInteger()),
        *_keys(site=sa.String(64), entry=sa.String(64), shape=sa.String(64)),
        sa.Column("core_s", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "glidein_reading",
        *_keys(site=sa.String(64), entry=sa.String(64), shape=sa.String(64)),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("received", "cpus", "running")),
    )
    op.create_table(
        "job_core_time",
        *_keys(level=sa.Integer(), time=sa.BigInteger()),
        *_keys(site=sa.String(64), entry=sa.String(64), user=sa.String(128), project=sa.String(128)),
        sa.Column("core_s", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "job_reading",
        *_keys(id=sa.Integer()),
        sa.Column("time", sa.BigInteger(), nullable=False),
    )


def _keys(**types: sa.types.TypeEngine[Any]) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, primary_key=True, autoincrement=False) for name, kind in types.items()]
