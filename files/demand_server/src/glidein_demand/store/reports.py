# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last report of each site, the number of glideins that it ever launched, and PyGlidein clients' last data."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, select

from ..values import DAY_S, MAX_SITES
from . import schema
from .database import Database, upsert

MAX_CLIENTS = 200
"""The most PyGlidein clients whose data is kept, each for a day: callers choose the names."""

MAX_LOGGED = 100
"""The most clients whose refusal is logged. Callers choose the names, so they must not fill the log."""

_column = schema.report.c

log = logging.getLogger(__name__)


class FullError(Exception):
    """The limit of sites is reached; the message has the limit."""


class Reports:
    """The last report of each site. Safe from many threads and processes."""

    def __init__(self, db: Database, max_sites: int = MAX_SITES) -> None:
        self._db = db
        self._max_sites = max_sites

    def add(self, report: Mapping[str, Any], received: int) -> bool:
        """Store a valid report in place of its site's last one; FullError beyond max_sites.

        Return False, and do not store the report, if it is not newer than the last one.
        """
        site = report["site"]
        report = {**report, "received": received}
        with self._db.begin() as connection:
            before = connection.execute(select(schema.report).where(_column.site == site)).first()
            number = connection.execute(select(func.count()).select_from(schema.report)).scalar_one()
            if before is None and number >= self._max_sites:
                raise FullError(f"{self._max_sites} sites are known already")
            last = json.loads(before.body) if before else None
            if last is not None and overtaken(last, report):
                return False
            launched = (before.launched if before else 0) + newly_launched(last, report)
            row = {"site": site, "received": received, "body": json.dumps(report), "launched": launched}
            connection.execute(upsert(connection, schema.report, ["site"]), [row])
        return True

    def reports(self) -> dict[str, dict[str, Any]]:
        """Return {site: report with "received" (epoch)}."""
        with self._db.read() as connection:
            return {row.site: json.loads(row.body) for row in connection.execute(select(_column.site, _column.body))}

    def launched(self) -> dict[str, int]:
        """Return {site: sum of the launched glideins of its reports}.

        Overtaken reports do not count: a push in pull mode may repeat one.
        """
        with self._db.read() as connection:
            rows = connection.execute(select(_column.site, _column.launched))
            return {row.site: row.launched for row in rows}

    def delete(self, site: str) -> None:
        """Delete a site's report."""
        with self._db.begin() as connection:
            connection.execute(delete(schema.report).where(_column.site == site))


class Clients:
    """The last monitoring data of PyGlidein clients by uuid, and the log of refused calls. Safe from many threads.

    They are in memory only: clients report every few minutes, and only the page shows the data. Beyond MAX_CLIENTS,
    the one with the oldest data is removed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._logged: set[tuple[str, str]] = set()

    def add(self, uuid: str, metrics: Mapping[str, Any], received: int) -> None:
        """Store a client's data in place of its last ones."""
        with self._lock:
            self._clients[uuid] = {"received": received, "metrics": metrics}
            self._clients.move_to_end(uuid)
            while len(self._clients) > MAX_CLIENTS:
                self._clients.popitem(last=False)

    def recent(self, now: float) -> dict[str, dict[str, Any]]:
        """Return {uuid: {"received": epoch, "metrics": {...}}} of the last day."""
        with self._lock:
            return {uuid: one for uuid, one in self._clients.items() if now - one["received"] <= DAY_S}

    def log_refused(self, method: str, client: object) -> None:
        """Log, once for each method and client, that a call of `client`, an unchecked name, is refused.

        These clients repeat the call in each cycle.
        """
        name = ascii(client)[:80]
        with self._lock:
            if (method, name) in self._logged or len(self._logged) >= MAX_LOGGED:
                return
            self._logged.add((method, name))
        log.warning('%s of the client %s without a token is refused: server.reading = "token"', method, name)


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
