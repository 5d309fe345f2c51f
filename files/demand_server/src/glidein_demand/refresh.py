# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The refresh: query schedds, collector and negotiator, and store the results. A failed query ends no refresh."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from .pool import schedds
from .pool.passed_over import PassedOverDetector
from .pool.pool_state import GONE
from .pool.queries import MAX_PARALLEL_QUERIES, QueryError, demand_queries, schedd_query, schedds_query
from .server import Server
from .values import one_line

log = logging.getLogger(__name__)

COLLECTOR = "the collector"
NEGOTIATOR = "the negotiator"


class Refresher:
    """The refresh of a server, with its state between two refreshes.

    A restart loses that state: slots count as free for a few negotiation cycles longer.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._settings = server.settings
        self._pool_state = server.pool_state
        self._passed_over = PassedOverDetector()
        self._slot_states: dict[str, Any] = {}
        self._cycles: list[int] = []
        self._schedds: list[dict[str, Any]] = []
        self._by_requirements: set[str] = set()
        self._errors: dict[str, str] = {}
        self._schedds_read = threading.Event()

    def refresh_once(self) -> None:
        """Run all queries once. After a failed query, the pool's state has the error and the last good result."""
        with ThreadPoolExecutor(MAX_PARALLEL_QUERIES, thread_name_prefix="read") as executor:
            supply = executor.submit(self._read_supply)
            limits = executor.submit(self._read_limits)
            self._read_schedds()
            now = int(self._server.clock())
            requested = self._server.requested_attributes.names()
            # All queries are submitted before the first result is awaited, so that one that hangs delays no other.
            queries = [
                (schedd["name"], query)
                for schedd in self._schedds
                for query in demand_queries(self._settings, schedd, schedd["name"] in self._by_requirements, requested)
            ]
            names = {executor.submit(self._run, query): name for name, query in queries}
            for name, parts in _complete(names):
                self._store_demand(name, parts, now)
            supply.result()
            limits.result()
        self._detect_passed_over(now)

    def read_waits(self) -> None:
        """Read from each schedd how long the jobs waited that have ended since the last call, and store that."""
        if not self._schedds_read.wait(self._settings.pool.job_history_seconds):
            return
        history = self._server.history
        for schedd in self._schedds:
            name = schedd["name"]
            source = f"the job history of {name}"
            try:
                since = history.wait_marker(name)
                result = self._run({**schedd_query(self._settings, schedd), "type": "waits", "since": since})
                if result["until"] != since:
                    history.add_waits(name, result["until"], result["waits"])
                self._log_change(source, "")
            except Exception as error:  # noqa: BLE001 - as in _store_demand
                self._log_change(source, error)

    def _store_demand(self, name: str, parts: list[Future[dict[str, Any]]], now: int) -> None:
        try:
            results = [part.result() for part in parts]
            self._by_requirements.discard(name)
            if any(result["by_requirements"] for result in results):
                self._by_requirements.add(name)
            self._pool_state.store_demand(name, results, now)
        except Exception as error:  # noqa: BLE001 - an invalid result of one daemon must not end the thread
            self._pool_state.store_demand_error(name, self._log_change(name, error))
        else:
            self._log_change(name, "")

    def _read_schedds(self) -> None:
        """Read the pool's schedds from the collector. If that fails, keep those of the last refresh."""
        try:
            found = self._run(schedds_query(self._settings))
            self._schedds, missing = schedds.select(found["schedds"], self._settings.pool.schedds)
            self._pool_state.store_gateways(found["gateways"])
        except Exception as error:  # noqa: BLE001 - as in _store_demand
            message = self._log_change(COLLECTOR, error)
            if not self._schedds:
                self._pool_state.store_pool_error(message)
            return
        self._log_change(COLLECTOR, "")
        gone = self._pool_state.store_schedds({schedd["name"] for schedd in self._schedds}, missing)
        for name in gone:
            self._log_change(name, GONE)
        if self._schedds:
            self._schedds_read.set()
            self._log_change("the pool", "")
        elif not gone:
            self._pool_state.store_pool_error(self._log_change("the pool", "the collector has no schedd"))

    def _read_supply(self) -> None:
        now, source = int(self._server.clock()), "the list of machines"
        machine_ads, pool = self._server.machine_ads, self._settings.pool
        try:
            result = self._run(
                {
                    "type": "supply",
                    "collector": pool.collector,
                    "now": now,
                    "vo": pool.vo,
                    "token_vos": pool.token_vos,
                    "slot_states": self._slot_states,
                    "token_sites": machine_ads.token_sites(now),
                    "sampled": machine_ads.recent(now),
                }
            )
            self._slot_states = result["slot_states"]
            machine_ads.add(result["samples"], now)
            self._server.glideins.registered(result["glideins"], now)
            self._server.core_hours.jobs_seen(result["job_cores"], now)
            self._passed_over.empty_glideins = result["empty_glideins"]
            self._pool_state.store_supply(result["supply"], now)
        except Exception as error:  # noqa: BLE001 - as in _store_demand
            self._pool_state.store_supply_error(self._log_change(source, error))
        else:
            self._log_change(source, "")

    def _read_limits(self) -> None:
        """Query the negotiator. It does not respond during a negotiation cycle: then its last limits remain."""
        try:
            result = self._run({"type": "limits", "collector": self._settings.pool.collector})
            self._pool_state.store_limits(result["limits"])
            self._cycles = result["cycles"]
        except Exception as error:  # noqa: BLE001 - as in _store_demand
            self._log_change(NEGOTIATOR, error)
        else:
            self._log_change(NEGOTIATOR, "")

    def _detect_passed_over(self, now: int) -> None:
        stored = self._server.passed_over
        closed = {group for groups in stored.closed(now).values() for group in groups}
        groups = self._pool_state.snapshot().results.by_submitter
        changed, found = self._passed_over.detect(self._server.leases.rows(), closed, groups, self._cycles, now)
        if changed:
            stored.reopen(changed, now)
        if found:
            stored.add(found, now)

    def _run(self, query: dict[str, Any]) -> dict[str, Any]:
        return self._server.queries.run(query, self._settings.pool.query_timeout_seconds)

    def _log_change(self, source: str, error: Exception | str) -> str:
        """Log the first of equal failures of a source, and its recovery; return the failure as one line."""
        if isinstance(error, QueryError):
            error = str(error)
        elif isinstance(error, Exception):
            error = f"unexpected result: {one_line(repr(error))}"
        if error != self._errors.get(source, ""):
            self._errors[source] = error
            if error:
                log.warning("the query of %s failed: %s; its last result is kept", source, error)
            else:
                log.info("the query of %s succeeded again", source)
        return error


def _complete(names: Mapping[Future[Any], str]) -> Iterator[tuple[str, list[Future[Any]]]]:
    """Yield (name, its futures in order) as soon as all futures of a name are done."""
    of: dict[str, list[Future[Any]]] = {}
    for future, name in names.items():
        of.setdefault(name, []).append(future)
    for future in as_completed(names):
        name = names[future]
        if name in of and all(part.done() for part in of[name]):
            yield name, of.pop(name)
