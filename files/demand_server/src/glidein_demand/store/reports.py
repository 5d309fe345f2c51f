# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last report of each site, the number of glideins that it ever launched, and PyGlidein clients' last data."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from sqlalchemy import Connection, Table, delete, func, select

from ..values import MAX_SITES
from . import schema
from .database import Database, upsert


class FullError(Exception):
    """The limit of sites is reached; the message has the limit."""


class Reports:
    """Reports by site and monitoring data by client: a cache in memory over two tables. Safe from many threads.

    Other processes may write: their rows are read at the start, and the row of a site when that site reports here.
    """

    def __init__(self, db: Database, max_sites: int = MAX_SITES, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._max_sites = max_sites
        self._clock = clock
        # Held for a write and its change in memory, so that both have the same order.
        self._lock = threading.Lock()
        with db.read() as connection:
            rows = connection.execute(select(schema.report)).all()
            self._monitoring = {
                row.uuid: {"received": row.received, "metrics": json.loads(row.metrics), "site": row.site}
                for row in connection.execute(select(schema.monitoring))
            }
        self._reports = {row.site: json.loads(row.body) for row in rows}
        self._launched = {row.site: row.launched for row in rows}

    def add(self, report: dict[str, Any], received: int, also: Callable[[bool], object] = lambda _is_new: None) -> bool:
        """Store a valid report in place of its site's last one; FullError beyond max_sites.

        Return False, and do not store the report, if it is not newer than the last one. also: is called with the result
        within the same transaction, and stores the rest of the report: all is stored, or nothing.
        """
        site = report["site"]
        report = {**report, "received": received}
        with self._lock:
            with self._db.begin() as connection:
                before = connection.execute(select(schema.report).where(schema.report.c.site == site)).first()
                if before is None:
                    self._check_room(connection, schema.report)
                last = json.loads(before.body) if before else None
                is_new = last is None or not overtaken(last, report)
                launched = (before.launched if before else 0) + newly_launched(last, report)
                if is_new:
                    row = {
                        "site": site, "received": received, "body": json.dumps(report), "launched": launched,
                    }  # fmt: skip
                    connection.execute(upsert(connection, schema.report, ["site"]), [row])
                also(is_new)
            if is_new:
                self._reports = {**self._reports, site: report}
                self._launched = {**self._launched, site: launched}
        return is_new

    def add_monitoring(self, uuid: str, metrics: dict[str, Any], received: int, site: str) -> None:
        """Store the monitoring data of a PyGlidein client with the token of `site`. FullError as add().

        Raise ValueError for a uuid with the character NUL, which PostgreSQL cannot store.
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
        """Return {site: report with "received" (epoch)}. Callers must not change it."""
        return self._reports

    def monitoring(self) -> dict[str, dict[str, Any]]:
        """Return {uuid: {"received": epoch, "metrics": {...}, "site": name}}. Callers must not change it."""
        return self._monitoring

    def launched(self) -> dict[str, int]:
        """Return {site: sum of the launched glideins of all its reports}. Callers must not change it."""
        return self._launched

    def delete(self, site: str) -> bool:
        """Delete a site's report and its clients' monitoring data; return whether there was any."""
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
            raise FullError(f"{self._max_sites} sites are known already")


def overtaken(last: Mapping[str, Any], report: Mapping[str, Any]) -> bool:
    """Return whether `report` is not newer than the `last` one.

    In pull mode, each push sends the file of the last report again: a site without cycles must not look active. A last
    report from the future comes from a wrong clock, and does not make later reports old.
    """
    return report["as_of"] <= last["as_of"] <= report["received"]


def newly_launched(last: Mapping[str, Any] | None, report: Mapping[str, Any]) -> int:
    """Return the number of glideins that a report counts as launched; 0 if it is the last report again."""
    if last is not None and last["as_of"] == report["as_of"]:
        return 0
    return sum(entry["launched"] or 0 for entry in report["entries"])
