# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last report of each site, how many glideins its reports ever launched, and what PyGlidein clients said last."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from sqlalchemy import Connection, Table, delete, func, select

from . import schema
from .database import Database, upsert


class FullError(Exception):
    """No room for one more site; the message says the limit."""


class Reports:
    """Reports by site and monitoring by client; read from memory, written through. Safe from many threads.

    Several processes may write; what another one wrote is seen at the start, and of a site when it reports here.
    """

    def __init__(self, db: Database, max_sites: int = 1000, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._max_sites = max_sites
        self._clock = clock
        # Held over a write and what it changes in memory, so that memory has the changes in their order.
        self._lock = threading.Lock()
        with db.read() as connection:
            rows = connection.execute(select(schema.report)).all()
            self._monitoring = {
                row.uuid: {"received": row.received, "metrics": json.loads(row.metrics), "site": row.site}
                for row in connection.execute(select(schema.monitoring))
            }
        self._reports = {row.site: json.loads(row.body) for row in rows}
        self._launched = {row.site: row.launched for row in rows}

    def add(self, report: dict[str, Any], received: int) -> bool:
        """Keep a checked report (web/checks.py) in place of its site's previous one; FullError beyond max_sites.

        False for one that says nothing new, because it was overtaken on its way by a newer one, or is the last one
        again: what is known stays, with the time when it came.
        """
        site = report["site"]
        report = {**report, "received": received}
        with self._lock:
            with self._db.begin() as connection:
                before = connection.execute(select(schema.report).where(schema.report.c.site == site)).first()
                if before is None:
                    self._check_room(connection, schema.report)
                last = json.loads(before.body) if before else None
                if last is not None and overtaken(last, report):
                    return False
                launched = (before.launched if before else 0) + newly_launched(last, report)
                row = {
                    "site": site, "received": received, "body": json.dumps(report), "launched": launched,
                }  # fmt: skip
                connection.execute(upsert(connection, schema.report, ["site"]), [row])
            self._reports = {**self._reports, site: report}
            self._launched = {**self._launched, site: launched}
        return True

    def add_monitoring(self, uuid: str, metrics: dict[str, Any], received: int, site: str) -> None:
        """Keep what a PyGlidein client said; `site` is the token's. FullError as add().

        Raises ValueError for a uuid with the character NUL, which not every database can keep.
        """
        if "\0" in uuid:
            raise ValueError("uuid must not have the character NUL")
        with self._lock:
            with self._db.begin() as connection:
                known = connection.execute(
                    select(schema.monitoring.c.uuid).where(schema.monitoring.c.uuid == uuid)
                ).first()
                if known is None:
                    self._check_room(connection, schema.monitoring)
                row = {"uuid": uuid, "site": site, "received": received, "metrics": json.dumps(metrics)}
                connection.execute(upsert(connection, schema.monitoring, ["uuid"]), [row])
            entry = {"received": received, "metrics": metrics, "site": site}
            self._monitoring = {**self._monitoring, uuid: entry}

    def reports(self) -> dict[str, dict[str, Any]]:
        """{site: report with "received" (epoch)}. Nobody changes what is inside."""
        return self._reports

    def monitoring(self) -> dict[str, dict[str, Any]]:
        """{uuid: {"received": epoch, "metrics": {...}, "site": name}}. Nobody changes what is inside."""
        return self._monitoring

    def launched(self) -> dict[str, int]:
        """{site: how many glideins its reports said were launched, ever}. Nobody changes what is inside."""
        return self._launched

    def forget(self, site: str) -> bool:
        """Remove a site's report and its clients' monitoring; False when nothing was known of it."""
        with self._lock:
            with self._db.begin() as connection:
                gone = connection.execute(delete(schema.report).where(schema.report.c.site == site)).rowcount
                gone += connection.execute(delete(schema.monitoring).where(schema.monitoring.c.site == site)).rowcount
            self._reports = {name: report for name, report in self._reports.items() if name != site}
            self._launched = {name: number for name, number in self._launched.items() if name != site}
            self._monitoring = {uuid: entry for uuid, entry in self._monitoring.items() if entry["site"] != site}
        return gone > 0

    def _check_room(self, connection: Connection, table: Table) -> None:
        if connection.execute(select(func.count()).select_from(table)).scalar_one() >= self._max_sites:
            raise FullError(f"server.max_sites = {self._max_sites} sites are known already")


def overtaken(last: Mapping[str, Any], report: Mapping[str, Any]) -> bool:
    """Whether `report` is no newer than the `last` one.

    A report that is brought as a file is brought again, with every push, until the next cycle: a site whose cycles have
    ended must not look alive. One from the future came from a clock that was wrong: it must not keep all others away
    until then.
    """
    return report["as_of"] <= last["as_of"] <= report["received"]


def newly_launched(last: Mapping[str, Any] | None, report: Mapping[str, Any]) -> int:
    """How many glideins a report says were launched; none when it is the last one, sent again."""
    if last is not None and last["as_of"] == report["as_of"]:
        return 0
    return sum(entry["launched"] or 0 for entry in report["entries"])
