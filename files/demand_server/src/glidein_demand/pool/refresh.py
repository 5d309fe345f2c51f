# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The background threads that read schedds and collector, again and again, and never let a failure out."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, Callable, Protocol

from ..config import Settings
from . import schedds
from .queries import QueryError, one_line
from .readings import GONE, Readings

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Daemons that are asked at the same time."""

PROCESSORS = os.cpu_count() or 1

COLLECTOR = "the collector"

NEGOTIATOR = "the negotiator"

Read = Callable[[dict[str, Any], float], dict[str, Any]]
"""Return the answer to an order within so many seconds, or raise QueryError (Queries.run; tests give their own)."""


class Passing(Protocol):
    """What finds groups that the negotiator passes over (pool/passing.py)."""

    def refreshed(self, groups: Callable[[], Iterable[Mapping[str, Any]]], cycles: Iterable[int], now: int) -> None:
        """Keep what a refresh shows."""


class Following(Protocol):
    """What has to be known from one reading of the collector to the next (pool/following.py)."""

    def order(self, now: int) -> Mapping[str, Any]:
        """What the order for the supply needs besides the settings."""

    def answered(self, answer: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Take in an answer; return what of it callers see."""


def schedds_order(settings: Settings) -> dict[str, Any]:
    """Asks the collector which schedds there are."""
    return {"what": "schedds", "collector": settings.collector}


def demand_orders(
    settings: Settings,
    schedd: Mapping[str, Any],
    by_requirements: bool,
    wanted: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Ask a schedd (of schedds.found) for its demand, in parts that can be asked for at the same time.

    by_requirements: what its last answer said; see schedds.parts. wanted: names of job
    attributes that callers asked for.
    """
    order = {
        "what": "demand",
        "schedd": schedd["name"],
        "address": schedd["address"],
        "constraint": settings.constraint,
        "users": list(settings.users),
        "attributes": list(settings.attributes),
        "runtime_attributes": list(settings.runtime_attributes),
        "wanted": list(wanted),
        "rounding": {
            "memory_mb": settings.memory_step_mb,
            "memory_usage_mb": settings.memory_usage_step_mb,
            "disk_mb": settings.disk_step_mb,
            "disk_usage_mb": settings.disk_usage_step_mb,
        },
    }
    parts = schedds.parts(schedd["idle"], by_requirements, PROCESSORS)
    return [{**order, "part": [number, parts]} for number in range(parts)]


def limits_order(settings: Settings) -> dict[str, Any]:
    """Asks the negotiator for its limits on running jobs."""
    return {"what": "limits", "collector": settings.collector}


def supply_order(settings: Settings, now: int, following: Mapping[str, Any]) -> dict[str, Any]:
    """Asks the collector for its machines. following: what Following.order gives."""
    order = {"what": "supply", "collector": settings.collector, "now": now, "max_sites": settings.max_sites}
    return {**order, **following}


def waits_order(settings: Settings, schedd: Mapping[str, Any], since: Any) -> dict[str, Any]:
    """Asks a schedd for the jobs that have ended since the marker `since`; see waits.read."""
    return {
        "what": "waits",
        "schedd": schedd["name"],
        "address": schedd["address"],
        "constraint": settings.constraint,
        "users": list(settings.users),
        "since": since,
    }


class Refresher:
    """Refreshes `readings` every `refresh_seconds`, and counts jobs' waits every `job_history_seconds` (0: never).

    following: goes between the collector's answers and the stores.
    on_waits(schedd, {"schedd", "waits", "until"}): takes what waits.read found; wait_marker(schedd) gives the last
    "until", None at first. on_queue: see Removals.schedd_read. Without on_waits no history is read.
    clock gives epoch seconds.
    """

    def __init__(
        self,
        settings: Settings,
        readings: Readings,
        read: Read,
        *,
        following: Following | None = None,
        passing: Passing | None = None,
        wanted: Callable[[], Iterable[str]] = tuple,
        on_queue: Callable[[str, Mapping[str, int], int, int], object] = lambda *_reading: None,
        on_waits: Callable[[str, dict[str, Any]], object] | None = None,
        wait_marker: Callable[[str], Any] = lambda _schedd: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._readings = readings
        self._read = read
        self._following = following
        self._passing = passing
        self._wanted = wanted
        self._on_queue = on_queue
        self._cycles: list[int] = []
        self._on_waits = on_waits
        self._wait_marker = wait_marker
        self._clock = clock
        self._known: list[dict[str, Any]] = []
        self._by_requirements: set[str] = set()
        self._said: dict[str, str] = {}
        self._stop = threading.Event()
        self._found = threading.Event()
        self._threads = [self._thread("refresh", self.refresh_once, settings.refresh_seconds)]
        if on_waits is not None and settings.job_history_seconds:
            self._threads.append(self._thread("waits", self._read_waits, settings.job_history_seconds))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Ask the threads to end; a query under way is not waited for longer than `timeout` seconds."""
        self._stop.set()
        self._found.set()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def refresh_once(self) -> None:
        """Read everything once; failures end up in the readings, with the last good answer beside them."""
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="read") as pool:
            supply = pool.submit(self._read_supply)
            limits = pool.submit(self._read_limits)
            self._find_schedds()
            asked = int(self._clock())
            wanted = list(self._wanted())
            # All orders are given before the first answer is waited for; one that hangs keeps no other from its place.
            orders = [
                (schedd["name"], order)
                for schedd in self._known
                for order in demand_orders(self._settings, schedd, schedd["name"] in self._by_requirements, wanted)
            ]
            names = {pool.submit(self._carry_out, order): name for name, order in orders}
            for name, parts in _complete(names):
                self._take_demand(name, parts, asked)
            supply.result()
            limits.result()
        if self._passing is not None:
            answers = self._readings.snapshot().answers
            self._passing.refreshed(lambda: answers.demand()["groups"], self._cycles, asked)

    def read_waits_once(self) -> None:
        """Hand over how long jobs waited that have ended since the last time, schedd by schedd."""
        for schedd in self._known:
            name = schedd["name"]
            what = f"the job history of {name}"
            try:
                since = self._wait_marker(name)
                answer = self._carry_out(waits_order(self._settings, schedd, since))
                if answer["until"] != since:
                    self._on_waits(name, answer)
                self._say(what, "")
            except Exception as error:  # noqa: BLE001 - as above
                self._say(what, error)

    def _read_waits(self) -> None:
        self._found.wait()  # until a refresh has told which schedds there are, or stop() was called
        if not self._stop.is_set():
            self.read_waits_once()

    def _take_demand(self, name: str, parts: list[Future[dict[str, Any]]], asked: int) -> None:
        try:
            answers = [part.result() for part in parts]
            self._by_requirements.discard(name)
            if any(answer["by_requirements"] for answer in answers):
                self._by_requirements.add(name)
            self._on_queue(name, answers[0].get("queue", {}), sum(answer.get("idle", 0) for answer in answers), asked)
            told = set.intersection(*(set(answer.get("attributes", ())) for answer in answers))
            self._readings.demand_read(name, answers, asked, tuple(sorted(told)))
        except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a daemon answers
            self._readings.demand_failed(name, self._say(name, error))
        else:
            self._say(name, "")

    def _find_schedds(self) -> None:
        """Ask the collector which schedds there are; when it does not answer, those of last time are asked."""
        try:
            found = self._carry_out(schedds_order(self._settings))["schedds"]
            self._known, missing = schedds.select(found, self._settings.schedds)
        except Exception as error:  # noqa: BLE001 - as above
            message = self._say(COLLECTOR, error)
            if not self._known:
                self._readings.demand_failed(COLLECTOR, message)
            return
        self._say(COLLECTOR, "")
        gone = self._readings.schedds_known({schedd["name"] for schedd in self._known}, missing)
        for name in gone:
            self._say(name, GONE)
        if self._known:
            self._found.set()
            self._say("the pool", "")
        elif not gone:
            self._readings.demand_failed(COLLECTOR, self._say("the pool", "the collector knows no schedd"))

    def _read_supply(self) -> None:
        asked = int(self._clock())
        try:
            following = self._following.order(asked) if self._following is not None else {}
            answer = self._carry_out(supply_order(self._settings, asked, following))
            if self._following is not None:
                answer = self._following.answered(answer, asked)
            self._readings.supply_read(answer, asked)
        except Exception as error:  # noqa: BLE001 - as above
            self._readings.supply_failed(self._say("the list of machines", error))
        else:
            self._say("the list of machines", "")

    def _read_limits(self) -> None:
        """Ask the negotiator, which answers no one during a cycle: until it does, its last limits hold."""
        try:
            answer = self._carry_out(limits_order(self._settings))
            self._readings.limits_read(answer["limits"])
            self._cycles = answer.get("cycles", [])
        except Exception as error:  # noqa: BLE001 - as above
            self._say(NEGOTIATOR, error)
        else:
            self._say(NEGOTIATOR, "")

    def _carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        return self._read(order, self._settings.query_timeout_seconds)

    def _say(self, what: str, error: Exception | str) -> str:
        """Log a failure once, and the recovery, not every refresh in between; the failure in one line."""
        if isinstance(error, QueryError):
            error = str(error)
        elif isinstance(error, Exception):
            error = f"unexpected answer: {one_line(repr(error))}"
        if error != self._said.get(what, ""):
            self._said[what] = error
            if error:
                log.warning("%s does not answer: %s; its last answer is kept", what, error)
            else:
                log.info("%s answers again", what)
        return error

    def _thread(self, name: str, work: Callable[[], None], seconds: float) -> threading.Thread:
        return threading.Thread(target=self._run, args=(name, work, seconds), name=name, daemon=True)

    def _run(self, name: str, work: Callable[[], None], seconds: float) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                work()
            except Exception:  # what is called back may fail: next time it may not
                log.exception("%s failed", name)
            self._stop.wait(max(0.0, seconds - (time.monotonic() - began)))


def _complete(names: Mapping[Future[Any], str]) -> Iterator[tuple[str, list[Future[Any]]]]:
    """(name, its futures in order) as soon as all futures of a name are done."""
    of: dict[str, list[Future[Any]]] = {}
    for future, name in names.items():
        of.setdefault(name, []).append(future)
    for future in as_completed(names):
        name = names[future]
        if name in of and all(part.done() for part in of[name]):
            yield name, of.pop(name)
