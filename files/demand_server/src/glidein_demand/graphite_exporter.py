# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The export of the sites' glideins to Graphite, under the names of PyGlidein's server.

PyGlidein's names are <prefix>.<client>.<partition>.glideins.<metric>. The client is a site here, and the partition is
an entry. As PyGlidein's server did, it sends one point for each report, with the time of the report.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from .config import GRAPHITE_PORT, Settings, host_and_port

INTERVAL_S = 15.0
TIMEOUT_S = 10.0
"""The time limit for connecting, and again for sending."""

_OF_ENTRY = {"launched": "launched", "running": "running", "queued": "idle"}
"""The counts of a report's entry that PyGlidein's clients send too, and PyGlidein's names."""

_OF_CLIENT = {
    "glideins_launched": "launched", "glideins_running": "running", "glideins_idle": "idle",
    "avg_idle_time": "avg_idle_time", "min_idle_time": "min_idle_time", "max_idle_time": "max_idle_time",
}  # fmt: skip

Reports = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Returns the last reports: {name: {"received": epoch, ...}}."""

log = logging.getLogger(__name__)


class Point(NamedTuple):
    """A value of Graphite's plaintext protocol."""

    path: str
    value: float
    time: int


def points_of_site(prefix: str, site: str, report: Mapping[str, Any]) -> list[Point]:
    """Return the points of a site's report: the sums over an entry's shapes. An unknown count has no point."""
    sums: dict[str, int] = {}
    for entry in report["entries"]:
        for count, metric in _OF_ENTRY.items():
            if entry[count] is not None:
                path = _path(prefix, site, entry["entry"], metric)
                sums[path] = sums.get(path, 0) + entry[count]
    return [Point(path, value, report["received"]) for path, value in sums.items()]


def points_of_client(prefix: str, uuid: str, data: Mapping[str, Any]) -> list[Point]:
    """Return the points of a PyGlidein client's monitoring data."""
    return [
        Point(_path(prefix, uuid, partition, _OF_CLIENT[metric]), value, data["received"])
        for metric, partitions in data["metrics"].items()
        for partition, value in partitions.items()
    ]


def lines(points: list[Point]) -> bytes:
    """Return points in Graphite's plaintext protocol."""
    return "".join(f"{point.path} {point.value} {point.time}\n" for point in points).encode("ascii")


class GraphiteExporter:
    """The export of new reports. A failure is logged once, counted, and retried at the next call.

    reports: the sites' reports; clients: the monitoring data of PyGlidein clients with a token; anonymous_clients: that
    of clients without one, which is sent only if the settings allow it.
    """

    def __init__(self, settings: Settings, reports: Reports, clients: Reports, anonymous_clients: Reports) -> None:
        self.sent = 0
        self.failed = 0
        """The numbers of connections that succeeded and failed, since the start."""
        self._address = host_and_port(settings.graphite_server, GRAPHITE_PORT) if settings.graphite_server else None
        self._prefix = settings.graphite_prefix
        self._reports = reports
        self._clients = [clients, anonymous_clients] if settings.graphite_anonymous_clients else [clients]
        self._received: dict[tuple[str, str], int] = {}
        self._problem = ""

    @property
    def is_enabled(self) -> bool:
        """Return whether the settings name a Graphite server."""
        return self._address is not None

    def send(self) -> int:
        """Send the points of all reports that were received since they were last sent; return their number.

        Raise OSError if the Graphite server cannot be reached. The next call then sends the same points again.
        """
        received, points = self._new_points()
        if points and self._address is not None:
            with socket.create_connection(self._address, TIMEOUT_S) as connection:
                connection.sendall(lines(points))
        self._received = received
        return len(points)

    def send_and_log(self) -> None:
        """Send, count the result, and log a failure if it is not the same as the last one."""
        try:
            if self.send():
                self.sent += 1
                if self._problem:
                    log.info("metrics.graphite_server: can be reached again")
                self._problem = ""
        except OSError as error:
            self.failed += 1
            problem = " ".join(str(error).split())[:300] or type(error).__name__
            if problem != self._problem:
                host, port = self._address or ("", 0)
                log.warning("metrics.graphite_server: %s port %s cannot be reached: %s", host, port, problem)
            self._problem = problem

    def _new_points(self) -> tuple[dict[tuple[str, str], int], list[Point]]:
        """Return ({report: its time}, the points of the reports that are newer than those that were sent)."""
        received: dict[tuple[str, str], int] = {}
        points: list[Point] = []
        # A later client with the path of an earlier one, or of a site, has no points: it must not replace their values.
        paths: set[str] = set()
        sources: list[tuple[str, Reports, Callable[[str, str, Mapping[str, Any]], list[Point]]]]
        sources = [("site", self._reports, points_of_site)]
        sources += [("client", clients, points_of_client) for clients in self._clients]
        for kind, read, points_of in sources:
            for name, report in read().items():
                received[kind, name] = report["received"]
                own = [point for point in points_of(self._prefix, name, report) if point.path not in paths]
                paths.update(point.path for point in own)
                if self._received.get((kind, name)) != report["received"]:
                    points += own
        return received, points


def _path(prefix: str, client: str, partition: str, metric: str) -> str:
    """Return the name of a metric.

    PyGlidein's server removes characters from the client's name, and none from the partition. A dot or a space in the
    partition would divide the name, so they become "_".
    """
    cleaned = re.sub(r"\W+", "", client, flags=re.ASCII) or "_"
    return f"{prefix}.{cleaned}.{re.sub(r'[^A-Za-z0-9_-]', '_', partition) or '_'}.glideins.{metric}"
