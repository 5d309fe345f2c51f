# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of the database, for /healthz and for a restart by systemd."""

from __future__ import annotations

import logging

from sqlalchemy.exc import SQLAlchemyError

from .database import Database, LostError, one_line

INTERVAL_S = 5.0
"""The interval of the checks; see service.py."""

log = logging.getLogger(__name__)


class Watch:
    """The check of the database. `problem` is the reason why it cannot be used now, or ""."""

    def __init__(self, database: Database) -> None:
        self.problem = ""
        self._database = database

    def check(self) -> bool:
        """Check once, log a change, and return whether the database is lost."""
        problem, lost = "", False
        try:
            self._database.check()
        except LostError as error:
            problem, lost = str(error), True
        except (SQLAlchemyError, OSError) as error:
            problem = f"state.database: cannot be used: {one_line(error)}"
        # Damage may be in a table that the check does not read, and its message has the remedy.
        problem = problem if lost else self._database.damage or problem or self._database.failed_write
        if problem != self.problem:
            if problem:
                log.error("%s", problem)
            else:
                log.info("state.database: can be used again")
            self.problem = problem
        return lost
