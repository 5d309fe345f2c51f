# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The refresh: the queries of all daemons, and the storage of their results in the pool's state and in the stores."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from .pool import schedds
from .pool.passed_over import PassedOverDetector
from .pool.pool_state import GONE
from .pool.queries import MAX_PARALLEL_QUERIES, QueryError, demand_query, schedds_query
from .server import Server
from .values import one_line

log = logging.getLogger(__name__)


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
        self._errors: dict[str, str] = {}

    def refresh_once(self) -> None:
        """Run all queries once. After a failed query, the pool's state has the error and the last good result."""
        # After a failed query of the collector, nothing is passed over: each reading counts once.
        self._passed_over.empty_glideins = None
        with ThreadPoolExecutor(MAX_PARALLEL_QUERIES, thread_name_prefix="read") as executor:
            supply = executor.submit(
                self._attempt, "the list of machines", self._read_supply, self._pool_state.store_supply_error
            )
            # The negotiator does not respond during a negotiation cycle: then its last limits remain.
            limits = executor.submit(self._attempt, "the negotiator", self._read_limits)
            self._attempt("the collector", self._read_schedds, self._store_collector_error)
            now = int(self._server.clock())
            requested = self._server.requested_attributes.names()
            # All queries are submitted before the first result is awaited, so that one that hangs delays no other.
            queries = {
                executor.submit(self._run, demand_query(self._settings, schedd, requested)): schedd["name"]
                for schedd in self._schedds
            }
            for query in as_completed(queries):
                name = queries[query]
                self._attempt(
                    name,
                    partial(self._store_demand, name, query, now),
                    partial(self._pool_state.store_demand_error, name),
                )
            supply.result()
            limits.result()
        self._detect_passed_over(now)

    def _store_demand(self, name: str, query: Future[dict[str, Any]], now: int) -> None:
        self._pool_state.store_demand(name, query.result(), now)

    def _read_schedds(self) -> None:
        """Read the pool's schedds from the collector. If that fails, those of the last refresh remain."""
        found = self._run(schedds_query(self._settings))
        self._schedds, missing = schedds.select(found["schedds"], self._settings.pool.schedds)
        self._pool_state.store_gateways(found["gateways"])
        self._pool_state.store_starts(schedds.starts(self._schedds, int(self._server.clock())))
        gone = self._pool_state.store_schedds({schedd["name"] for schedd in self._schedds}, missing)
        for name in gone:
            self._log_change(name, GONE)
        if self._schedds:
            self._log_change("the pool", "")
        elif not gone:
            error = "the collector has no schedd"
            self._log_change("the pool", error)
            self._pool_state.store_pool_error(error)

    def _store_collector_error(self, error: str) -> None:
        if not self._schedds:
            self._pool_state.store_pool_error(error)

    def _read_supply(self) -> None:
        now, machine_ads, pool = int(self._server.clock()), self._server.machine_ads, self._settings.pool
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
        self._passed_over.empty_glideins = result["empty_glideins"]
        try:
            machine_ads.add(result["samples"], now)
            self._server.glideins.registered(result["glideins"], now)
            self._server.core_hours.jobs_seen(result["job_cores"], now)
        finally:
            # The collector has answered, also if the database cannot be written.
            self._pool_state.store_supply(result["supply"], now)

    def _read_limits(self) -> None:
        result = self._run({"type": "limits", "collector": self._settings.pool.collector})
        self._pool_state.store_limits(result["limits"])
        self._cycles = result["cycles"]

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

    def _attempt(self, source: str, work: Callable[[], None], on_error: Callable[[str], None] | None = None) -> None:
        """Do the work with the result of a source. After a failure, call `on_error` with its reason as one line.

        Raise the errors of the database, which are not those of the source.
        """
        error = ""
        try:
            work()
        except QueryError as failure:
            error = str(failure)
        except SQLAlchemyError:
            raise
        except Exception as failure:  # noqa: BLE001 - an invalid result of one daemon must not end the thread
            error = f"unexpected result: {one_line(repr(failure))}"
        self._log_change(source, error)
        if error and on_error is not None:
            on_error(error)

    def _log_change(self, source: str, error: str) -> None:
        """Log the first of equal failures of a source, and its recovery."""
        if error != self._errors.get(source, ""):
            self._errors[source] = error
            if error:
                log.warning("the query of %s failed: %s; its last result is kept", source, error)
            else:
                log.info("the query of %s succeeded again", source)
