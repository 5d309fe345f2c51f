# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An ended glidein has its entry, its shape and the reason of its end."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns. The values of glideins that ended before are unknown."""
    op.add_column("ended_glidein", sa.Column("entry", sa.String(64)))
    op.add_column("ended_glidein", sa.Column("shape", sa.String(64)))
    op.add_column("ended_glidein", sa.Column("reason", sa.Text))
