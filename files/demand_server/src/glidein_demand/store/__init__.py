# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what must outlive a restart, in a database (SQLAlchemy; SQLite unless told otherwise)."""
