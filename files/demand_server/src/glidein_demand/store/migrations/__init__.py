# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrades of the database's tables by Alembic. store/upgrade.py runs them."""
