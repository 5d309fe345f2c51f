# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The background threads that query schedds, collector and negotiator. A failed query does not end a thread."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, Callable

from ..config import Settings
from . import schedds
from .collector_state import CollectorState
from .passed_over_detector import PassedOverDetector
from .pool_state import GONE, PoolState
from .queries import QueryError, one_line

log = logging.getLogger(__name__)

MAX_PARALLEL_QUERIES = 4

PROCESSORS = os.cpu_count() or 1

COLLECTOR = "the collector"

NEGOTIATOR = "the negotiator"

RunQuery = Callable[[dict[str, Any], float], dict[str, Any]]
"""Return the result of a query, or raise QueryError after so many seconds (Queries.run; tests use their own)."""


def schedds_query(settings: Settings) -> dict[str, Any]:
    """Return the query of the collector for the pool's schedds."""
    return {"type": "schedds", "collector": settings.collector}


def demand_queries(
    settings: Settings,
    schedd: Mapping[str, Any],
    by_requirements: bool,
    requested_attributes: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return the queries of a schedd (a row of schedds.from_ads) for its demand: parts that can run in parallel.

    by_requirements: the value in the schedd's last result; see schedds.number_of_parts. requested_attributes: names of
    job attributes that callers requested.
    """
    query = {
        "type": "demand",
        "schedd": schedd["name"],
        "address": schedd["address"],
        "constraint": settings.constraint,
        "users": list(settings.users),
        "attributes": list(settings.attributes),
        "runtime_attributes": list(settings.runtime_attributes),
        "requested_attributes": list(requested_attributes),
        "rounding": {
            "memory_mb": settings.memory_step_mb,
            "memory_usage_mb": settings.memory_usage_step_mb,
            "disk_mb": settings.disk_step_mb,
            "disk_usage_mb": settings.disk_usage_step_mb,
        },
    }
    parts = schedds.number_of_parts(schedd["idle"], by_requirements, PROCESSORS)
    return [{**query, "part": [number, parts]} for number in range(parts)]


def limits_query(settings: Settings) -> dict[str, Any]:
    """Return the query of the negotiator for its limits on running jobs."""
    return {"type": "limits", "collector": settings.collector}


def supply_query(settings: Settings, now: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query of the collector for the pool's machines. parameters: of CollectorState.query_parameters."""
    query = {"type": "supply", "collector": settings.collector, "now": now, "max_sites": settings.max_sites}
    return {**query, "vo": settings.vo, "token_vos": settings.token_vos, **parameters}


def waits_query(settings: Settings, schedd: Mapping[str, Any], since: Any) -> dict[str, Any]:
    """Return the query of a schedd for the jobs that have ended since the marker `since`; see job_waits.read."""
    return {
        "type": "waits",
        "schedd": schedd["name"],
        "address": schedd["address"],
        "constraint": settings.constraint,
        "users": list(settings.users),
        "since": since,
    }


class Refresher:
    """Updates `pool_state` every `refresh_seconds`, and counts jobs' waits every `job_history_seconds` (0: never).

    collector_state: keeps state between two queries of the collector.
    on_waits(schedd, {"schedd", "waits", "until"}): receives the result of job_waits.read; wait_marker(schedd) returns
    the last "until", None at first. on_counters: see Removals.store_counters. clock returns epoch seconds.
    """

    def __init__(
        self,
        settings: Settings,
        pool_state: PoolState,
        run_query: RunQuery,
        *,
        collector_state: CollectorState | None = None,
        passed_over: PassedOverDetector | None = None,
        requested_attributes: Callable[[], Iterable[str]] = tuple,
        on_counters: Callable[[str, Mapping[str, int], int, int], object] = lambda *_counters: None,
        on_waits: Callable[[str, dict[str, Any]], object] = lambda _schedd, _result: None,
        wait_marker: Callable[[str], Any] = lambda _schedd: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._pool_state = pool_state
        self._run_query = run_query
        self._collector_state = collector_state
        self._passed_over = passed_over
        self._requested_attributes = requested_attributes
        self._on_counters = on_counters
        self._cycles: list[int] = []
        self._on_waits = on_waits
        self._wait_marker = wait_marker
        self._clock = clock
        self._schedds: list[dict[str, Any]] = []
        self._by_requirements: set[str] = set()
        self._errors: dict[str, str] = {}
        self._stop = threading.Event()
        self._schedds_read = threading.Event()
        self._threads = [self._thread("refresh", self.refresh_once, settings.refresh_seconds)]
        if settings.job_history_seconds:
            self._threads.append(self._thread("waits", self._read_waits, settings.job_history_seconds))

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Stop the threads, and wait at most `timeout` seconds for a query that is running."""
        self._stop.set()
        self._schedds_read.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def refresh_once(self) -> None:
        """Run all queries once. After a failed query, the pool's state has the error and the last good result."""
        with ThreadPoolExecutor(MAX_PARALLEL_QUERIES, thread_name_prefix="read") as executor:
            supply = executor.submit(self._read_supply)
            limits = executor.submit(self._read_limits)
            self._read_schedds()
            now = int(self._clock())
            requested = list(self._requested_attributes())
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
        if self._passed_over is not None:
            results = self._pool_state.snapshot().results
            self._passed_over.detect(results.by_submitter, self._cycles, now)

    def read_waits_once(self) -> None:
        """Read from each schedd how long the jobs waited that have ended since the last call, and call on_waits."""
        for schedd in self._schedds:
            name = schedd["name"]
            source = f"the job history of {name}"
            try:
                since = self._wait_marker(name)
                result = self._run(waits_query(self._settings, schedd, since))
                if result["until"] != since:
                    self._on_waits(name, result)
                self._log_change(source, "")
            except Exception as error:  # noqa: BLE001 - as in _store_demand
                self._log_change(source, error)

    def _read_waits(self) -> None:
        self._schedds_read.wait()  # until a refresh has read the schedds, or stop() was called
        if not self._stop.is_set():
            self.read_waits_once()

    def _store_demand(self, name: str, parts: list[Future[dict[str, Any]]], now: int) -> None:
        try:
            results = [part.result() for part in parts]
            self._by_requirements.discard(name)
            if any(result["by_requirements"] for result in results):
                self._by_requirements.add(name)
            idle = sum(result.get("idle", 0) for result in results)
            self._on_counters(name, results[0].get("counters", {}), idle, now)
            attributes = set.intersection(*(set(result.get("attributes", ())) for result in results))
            self._pool_state.store_demand(name, results, now, tuple(sorted(attributes)))
        except Exception as error:  # noqa: BLE001 - an invalid result of one daemon must not end the thread
            self._pool_state.store_demand_error(name, self._log_change(name, error))
        else:
            self._log_change(name, "")

    def _read_schedds(self) -> None:
        """Read the pool's schedds from the collector. If that fails, keep those of the last refresh."""
        try:
            found = self._run(schedds_query(self._settings))
            self._schedds, missing = schedds.select(found["schedds"], self._settings.schedds)
            self._pool_state.store_gateways(found.get("gateways", ()))
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
        now, source = int(self._clock()), "the list of machines"
        try:
            parameters = self._collector_state.query_parameters(now) if self._collector_state is not None else {}
            result = self._run(supply_query(self._settings, now, parameters))
            if self._collector_state is not None:
                result = self._collector_state.store_result(result, now)
            self._pool_state.store_supply(result, now)
        except Exception as error:  # noqa: BLE001 - as in _store_demand
            self._pool_state.store_supply_error(self._log_change(source, error))
        else:
            self._log_change(source, "")

    def _read_limits(self) -> None:
        """Query the negotiator. It does not respond during a negotiation cycle: then its last limits remain."""
        try:
            result = self._run(limits_query(self._settings))
            self._pool_state.store_limits(result["limits"])
            self._cycles = result.get("cycles", [])
        except Exception as error:  # noqa: BLE001 - as in _store_demand
            self._log_change(NEGOTIATOR, error)
        else:
            self._log_change(NEGOTIATOR, "")

    def _run(self, query: dict[str, Any]) -> dict[str, Any]:
        return self._run_query(query, self._settings.query_timeout_seconds)

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

    def _thread(self, name: str, work: Callable[[], None], seconds: float) -> threading.Thread:
        return threading.Thread(target=self._repeat, args=(name, work, seconds), name=name, daemon=True)

    def _repeat(self, name: str, work: Callable[[], None], seconds: float) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                work()
            except Exception:  # a callback failed; the next call may succeed
                log.exception("%s failed", name)
            self._stop.wait(max(0.0, seconds - (time.monotonic() - began)))


def _complete(names: Mapping[Future[Any], str]) -> Iterator[tuple[str, list[Future[Any]]]]:
    """Yield (name, its futures in order) as soon as all futures of a name are done."""
    of: dict[str, list[Future[Any]]] = {}
    for future, name in names.items():
        of.setdefault(name, []).append(future)
    for future in as_completed(names):
        name = names[future]
        if name in of and all(part.done() for part in of[name]):
            yield name, of.pop(name)
