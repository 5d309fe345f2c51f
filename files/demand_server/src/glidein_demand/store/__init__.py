# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The persistent state, in a database by SQLAlchemy: SQLite by default, or PostgreSQL."""
