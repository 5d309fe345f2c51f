# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries of HTCondor's daemons: each runs in a process of its own.

HTCondor's Python bindings keep the interpreter's lock while they wait for a daemon, so a query inside the server would
stop every request. A process can also be killed when a daemon hangs, and its end frees the memory of a large queue.

multiprocessing's fork server loads the bindings once and forks a process for each query, which takes a few
milliseconds. Its socket is in TMPDIR: nothing may clean that directory up while the server runs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Callable

from ..config import Settings
from ..values import one_line

MAX_PARALLEL_QUERIES = 4

NICE = 10
"""The least niceness of a query's process. Requests come first."""

PRELOADED = ["htcondor2", "glidein_demand.cli", "glidein_demand.pool.query_handlers", __name__]
"""The modules that the fork server imports. Each process imports its main module, which is the command's."""

ATTRIBUTE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
MAX_NAMES_OF_CALLER = 20
MAX_NAMES = 50
"""The most names of all callers; the first in alphabetical order are used."""

EXPIRY_S = 24 * 3600
"""Seconds that a name is used if its caller does not request it again."""

# Attributes that differ in every job, or that may hold secrets.
_REFUSED = re.compile(
    r"""^(?: Args | Arguments | AutoClusterId | ClusterId | Cmd | CoreSize | CumulativeSlotTime | DAGNodeName
       | Entered.* | Env | Environment | Err | GlobalJobId | Id | In | Iwd | Job(?:Count|Ids|StartDate|SubmitFile.*)
       | Last.* | Num.* | Out | ProcId | QDate | ServerTime | SubmitEventNotes | TransferInput | TransferOutput.*
       | UserLog ) $ | claimid | credential | key | passw | secret | sinful | token""",
    re.VERBOSE | re.IGNORECASE,
)

RunQuery = Callable[[dict[str, Any], float], dict[str, Any]]
"""Return the result of a query, or raise QueryError after so many seconds (Queries.run; tests use their own)."""


class QueryError(Exception):
    """A query failed; the message is one line that gives the reason."""


class NoAnswerError(QueryError):
    """There was no answer; a later query may get one."""


class Queries:
    """The runner of queries (query_handlers.run_query). Safe from many threads. Call close() at the end."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._closed = False

    def run(self, query: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the result of `query` (plain values). Raise QueryError if it takes longer than `timeout` seconds."""
        receiver, sender = self._context.Pipe(duplex=False)
        with receiver:
            with sender:
                process = self._start(sender, query)
            try:
                if not receiver.poll(timeout):
                    raise NoAnswerError(f"no answer within {timeout:g} s")
                result, error = receiver.recv()
            except (EOFError, OSError) as ended:
                raise NoAnswerError(
                    "the query's process ended without an answer; its log may have the reason"
                ) from ended
            finally:
                _kill(process)
                with self._lock:
                    process.join(5)
                    self._running.discard(process)
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
                raise NoAnswerError("the server is stopping")
            try:
                process.start()
            except (EOFError, OSError) as error:  # the fork server was killed; the next query starts a new one
                raise NoAnswerError(f"cannot start a process: {one_line(repr(error))}") from error
            self._running.add(process)
        return process


def _run_in_process(sender: Connection, query: dict[str, Any]) -> None:
    """Run in the query's process: send (result, "") or (None, error)."""
    from . import query_handlers

    os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal, Ctrl-C reaches every process
    outcome: tuple[dict[str, Any] | None, str]
    try:
        outcome = (query_handlers.run_query(query), "")
    except Exception as error:  # noqa: BLE001 - the server shows any error and keeps its last result
        # The text of an error of Python itself, such as a KeyError, needs its type.
        outcome = (None, one_line(repr(error) if isinstance(error, _OF_PYTHON) else error) or one_line(repr(error)))
    sender.send(outcome)


_OF_PYTHON = (LookupError, TypeError, AttributeError)


def _kill(process: Any) -> None:
    with contextlib.suppress(OSError):
        process.kill()


def schedds_query(settings: Settings) -> dict[str, Any]:
    """Return the query of the collector for the pool's schedds."""
    return {"type": "schedds", "collector": settings.pool.collector}


def demand_query(
    settings: Settings, schedd: Mapping[str, Any], requested_attributes: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the query of a schedd (a row of schedds.of_pool) for its demand.

    requested_attributes: names of job attributes that callers requested.
    """
    return {
        "type": "demand",
        "schedd": schedd["name"],
        "address": schedd["address"],
        "constraint": settings.pool.constraint,
        "users": list(settings.pool.users),
        "attributes": list(settings.pool.attributes),
        "runtime_attributes": list(settings.pool.runtime_attributes),
        "requested_attributes": list(requested_attributes),
    }


class RequestedAttributes:
    """The job attributes by which callers request that groups are divided, in addition to those of the configuration.

    A controller requests, with get_demand, the attributes that its sites' accept_requirements refer to. From the next
    refresh on, the groups of all callers are divided by them. Safe from many threads.
    requests: those of the server before a restart.
    """

    def __init__(self, clock: Callable[[], float] = time.time, requests: Mapping[str, list[Any]] | None = None) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = dict(requests or {})

    def request(self, caller: str, names: list[str]) -> None:
        """Replace the names that a caller requests. web/parameters.py has checked them."""
        with self._lock:
            self._requests[caller] = [names, self._clock()]

    def requests(self) -> dict[str, list[Any]]:
        """Return {caller: [names, epoch seconds of the request]}."""
        with self._lock:
            return dict(self._requests)

    def names(self) -> list[str]:
        """Return the attributes that divide groups in the next refresh, each in one spelling."""
        now = self._clock()
        with self._lock:
            self._requests = {caller: row for caller, row in self._requests.items() if now - row[1] < EXPIRY_S}
            found = {name.lower(): name for names, _time in self._requests.values() for name in names}
        return [found[name] for name in sorted(found) if not _REFUSED.search(name)][:MAX_NAMES]
