# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queries of HTCondor's daemons, each of which runs in a separate process.

HTCondor's Python bindings keep the interpreter's lock while they wait for a daemon, so a query inside the server would
stop every request. A process can also be killed when a daemon hangs, and its end frees the memory of a large queue.

multiprocessing's fork server loads the bindings once and forks a process for each query, which takes a few
milliseconds. Its socket is in TMPDIR: nothing may clean that directory up while the server runs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Callable

from ..config import Settings
from . import schedds

MAX_PARALLEL_QUERIES = 4

PROCESSORS = os.cpu_count() or 1

NICE = 10
"""The least niceness of a query's process. Requests come first."""

PRELOADED = ["htcondor2", "glidein_demand.cli", "glidein_demand.pool.query_handlers", __name__]
"""The modules that the fork server imports. Each process imports its main module, which is the command's."""


RunQuery = Callable[[dict[str, Any], float], dict[str, Any]]
"""Return the result of a query, or raise QueryError after so many seconds (Queries.run; tests use their own)."""


class QueryError(Exception):
    """A query failed; the message is one line that gives the reason."""


class Queries:
    """The runner of queries (query_handlers.run_query). Safe from many threads. Call close() at the end."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._closed = False

    def __enter__(self) -> Queries:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def run(self, query: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the result of `query` (plain values). Raise QueryError if it takes longer than `timeout` seconds."""
        receiver, sender = self._context.Pipe(duplex=False)
        with receiver:
            with sender:
                process = self._start(sender, query)
            try:
                if not receiver.poll(timeout):
                    raise QueryError(f"no answer within {timeout:g} s")
                result, error = receiver.recv()
            except (EOFError, OSError) as ended:
                raise QueryError("the query's process ended without an answer; its log may have the reason") from ended
            finally:
                self._end(process)
        if error:
            raise QueryError(error)
        return result

    def close(self) -> None:
        """Kill the processes of all queries, and refuse later queries."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill(process)

    def _start(self, sender: Connection, query: dict[str, Any]) -> Any:
        process = self._context.Process(target=_run_in_process, args=(sender, query), daemon=True)
        with self._lock:
            if self._closed:
                raise QueryError("the server is stopping")
            try:
                process.start()
            except (EOFError, OSError) as error:  # the fork server was killed; the next query starts a new one
                raise QueryError(f"cannot start a process: {one_line(repr(error))}") from error
            self._running.add(process)
        return process

    def _end(self, process: Any) -> None:
        _kill(process)
        with self._lock:
            process.join(5)
            self._running.discard(process)


def run(query: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Run a single query, as Queries.run does."""
    with Queries() as queries:
        return queries.run(query, timeout)


def one_line(text: object) -> str:
    """Return a text without line breaks and repeated spaces."""
    return " ".join(str(text).split())


def schedds_query(settings: Settings) -> dict[str, Any]:
    """Return the query of the collector for the pool's schedds."""
    return {"type": "schedds", "collector": settings.pool.collector}


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
        "constraint": settings.pool.constraint,
        "users": list(settings.pool.users),
        "attributes": list(settings.pool.attributes),
        "runtime_attributes": list(settings.pool.runtime_attributes),
        "requested_attributes": list(requested_attributes),
    }
    parts = schedds.number_of_parts(schedd["idle"], by_requirements, PROCESSORS)
    return [{**query, "part": [number, parts]} for number in range(parts)]


def limits_query(settings: Settings) -> dict[str, Any]:
    """Return the query of the negotiator for its limits on running jobs."""
    return {"type": "limits", "collector": settings.pool.collector}


def supply_query(settings: Settings, now: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query of the collector for the pool's machines. parameters: further ones of supply.read."""
    query = {"type": "supply", "collector": settings.pool.collector, "now": now}
    return {**query, "vo": settings.pool.vo, "token_vos": settings.pool.token_vos, **parameters}


def waits_query(settings: Settings, schedd: Mapping[str, Any], since: Any) -> dict[str, Any]:
    """Return the query of a schedd for the jobs that have ended since the marker `since`; see job_waits.read."""
    return {
        "type": "waits",
        "schedd": schedd["name"],
        "address": schedd["address"],
        "constraint": settings.pool.constraint,
        "users": list(settings.pool.users),
        "since": since,
    }


def _run_in_process(sender: Connection, query: dict[str, Any]) -> None:
    """Run in the query's process: send (result, "") or (None, error)."""
    from . import query_handlers

    os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal, Ctrl-C reaches every process
    outcome: tuple[dict[str, Any] | None, str]
    try:
        outcome = (query_handlers.run_query(query), "")
    except Exception as error:  # noqa: BLE001 - the server shows any error and keeps its last result
        outcome = (None, _reason(error))
    sender.send(outcome)


def _reason(error: Exception) -> str:
    """Return an error in one line; errors of Python itself are returned with their type."""
    ours = not isinstance(error, (LookupError, TypeError, AttributeError))
    return (one_line(error) if ours else "") or one_line(repr(error))


def _kill(process: Any) -> None:
    with contextlib.suppress(OSError):
        process.kill()
