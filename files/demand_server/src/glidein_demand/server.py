# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of one demand server, built from its settings, and the thread of each periodic work."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Callable

from sqlalchemy.exc import SQLAlchemyError

from .config import Settings
from .pool.job_lookup import JobLookup
from .pool.pool_state import PoolState
from .pool.queries import Queries, RequestedAttributes
from .result_cache import ResultCache
from .store.core_hours import CoreHours
from .store.database import Database, markers
from .store.entries import MachineAds, PassedOverGroups
from .store.glideins import Glideins
from .store.history import History
from .store.leases import LeaseLimits, Leases, Pause, SiteOwners
from .store.reports import Clients, Reports
from .store.tokens import Tokens
from .values import one_line

log = logging.getLogger(__name__)

STOP_S = 1.0
"""The longest time that stop() waits for periodic work."""

REQUESTED = "requested"
"""The kind of the markers that have what callers request, RequestedAttributes.requests()."""

EXPECTED = (OSError, SQLAlchemyError)
"""Failures of periodic work that are logged without a traceback."""


class Every(threading.Thread):
    """A thread that calls `work` every `seconds` seconds, first after `delay_s`, until stop().

    After a failure, the next call comes at its time. Of equal failures in a row, only the first is logged.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[], object], delay_s: float = 0) -> None:
        super().__init__(name=name, daemon=True)
        self._seconds = seconds
        self._work = work
        self._delay_s = delay_s
        self._problem = ""
        self._ended = threading.Event()

    def run(self) -> None:
        """Work until stop()."""
        self._ended.wait(self._delay_s)
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._work()
                self._problem = ""
            except Exception as error:  # noqa: BLE001 - the next call may succeed
                problem = f"{type(error).__name__}: {one_line(error)[:300]}"
                if problem != self._problem:
                    log.error("%s failed: %s", self.name, problem, exc_info=not isinstance(error, EXPECTED))
                self._problem = problem
            self._ended.wait(max(0.0, self._seconds - (time.monotonic() - began)))

    def stop(self) -> None:
        """End the thread after the work that is running; do not wait for it."""
        self._ended.set()


class Server:
    """The database with its stores, the last results of the queries, and what is kept in memory about callers.

    All parts are safe to use from many threads. clock: returns epoch seconds. Raise ConfigError if the database cannot
    be used.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.clock = clock
        self.database = database = Database(settings.state.database)
        self.leases = Leases(database, clock)
        self.lease_limits = LeaseLimits(database)
        self.site_owners = SiteOwners(database, clock)
        self.tokens = Tokens(database, clock)
        self.pause = Pause(database, clock)
        self.reports = Reports(database)
        self.clients = Clients()
        self.glideins = Glideins(database)
        self.core_hours = CoreHours(database, settings.state.keep_history_days, settings.pool.refresh_seconds)
        self.history = History(database, settings.state.keep_history_days)
        self.machine_ads = MachineAds(database)
        self.passed_over = PassedOverGroups(database)

        self.queries = Queries()
        self.jobs = JobLookup(settings, self.queries.run)
        self.pool_state = PoolState(settings, clock)
        with database.read() as connection:
            self.requested_attributes = RequestedAttributes(clock, markers(connection, REQUESTED))

        self.calls: Counter[tuple[str, str]] = Counter()
        """The JSON-RPC calls by (method, "ok" or "error"); see methods.call."""
        # Each has its own lock: get_demand does not wait while a supply is computed.
        self.demand_cache, self.supply_cache, self.page_cache = ResultCache(), ResultCache(), ResultCache()
        self.graphite_sends: Counter[str] = Counter()
        """The sends to Graphite by "ok" or "error"."""
        self._threads: list[Every] = []

    def start(self, threads: Iterable[Every]) -> None:
        """Start the periodic work; see service.threads."""
        self._threads = list(threads)
        for thread in self._threads:
            thread.start()
        if not self.tokens.rows():
            log.warning(
                "no token exists: sites can neither report nor lease; run the role glidein.ops.demand_server, or "
                "glidein-demand token create NAME"
            )

    def stop(self, timeout: float = STOP_S) -> None:
        """Stop the periodic work, kill the queries that still run after `timeout` seconds, and close the database."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.queries.close()
        self.database.close()
