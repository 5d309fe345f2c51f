# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Core-hours of jobs are counted by VO, too."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_NEW = "job_core_time_0005"


def upgrade() -> None:
    """Make the table again, because SQLite cannot change a primary key. The VO of jobs that ran before is unknown."""
    keys: dict[str, sa.types.TypeEngine[Any]] = {
        "level": sa.Integer(), "time": sa.BigInteger(), "site": sa.String(64), "entry": sa.String(64),
        "user": sa.String(128), "project": sa.String(128), "vo": sa.String(128),
    }  # fmt: skip
    new = op.create_table(
        _NEW,
        *(sa.Column(name, kind, primary_key=True, autoincrement=False) for name, kind in keys.items()),
        sa.Column("core_s", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    old = sa.table("job_core_time", *(sa.column(name) for name in (*keys, "core_s") if name != "vo"))
    values = [sa.literal("") if name == "vo" else old.c[name] for name in (*keys, "core_s")]
    op.execute(sa.insert(new).from_select([*keys, "core_s"], sa.select(*values)))
    op.drop_table("job_core_time")
    op.rename_table(_NEW, "job_core_time")
