# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Alembic's environment: it runs the migrations on the connection, and in the transaction, of store/upgrade.py."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    # SQLite's DDL is transactional here, because database.py begins each transaction itself.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
