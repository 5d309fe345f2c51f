# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every row of `monitoring` belongs to a site: clients without a token are in memory only since schema_version 1.

The table `schema_version` stays, with the value 2: programs before Alembic refuse every value but 1.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Remove the rows without a site, forbid new ones, and make older programs refuse the database."""
    op.execute("DELETE FROM monitoring WHERE site IS NULL")
    with op.batch_alter_table("monitoring") as monitoring:
        monitoring.alter_column("site", existing_type=sa.String(64), nullable=False)
    op.execute("DELETE FROM schema_version")
    op.execute("INSERT INTO schema_version (version) VALUES (2)")
