# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The background thread that reads schedds and collector, again and again, and never lets a failure out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from .config import Settings
from .reader import ReadError, one_line
from .state import State

log = logging.getLogger(__name__)

Read = Callable[[dict[str, Any], float], dict[str, Any]]
"""Carries out one order within so many seconds, or raises ReadError (reader.read; tests give their own)."""


def orders(settings: Settings, now: int) -> list[dict[str, Any]]:
    """What one refresh asks: every schedd for its demand (no names: this host's), the collector for the supply."""
    demand = {
        "what": "demand",
        "collector": settings.collector,
        "constraint": settings.constraint,
        "attributes": list(settings.attributes),
        "runtime_attributes": list(settings.runtime_attributes),
        "rounding": {
            "memory_mb": settings.memory_step_mb,
            "disk_mb": settings.disk_step_mb,
            "disk_usage_mb": settings.disk_usage_step_mb,
        },
    }
    schedds: Iterable[str] = settings.schedds or ("",)
    supply = {"what": "supply", "collector": settings.collector, "now": now}
    return [*({**demand, "schedd": name} for name in schedds), supply]


class Refresher:
    """Refreshes `state` every `refresh_seconds`; at most four daemons are asked at the same time."""

    def __init__(self, settings: Settings, state: State, read: Read, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._state = state
        self._read = read
        self._clock = clock
        self._said: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresh", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Ask the thread to end; a query under way is not waited for longer than `timeout` seconds."""
        self._stop.set()
        self._thread.join(timeout)

    def refresh_once(self) -> None:
        """Read everything once; failures end up in the state, with the last good answer beside them."""
        todo = orders(self._settings, int(self._clock()))
        with ThreadPoolExecutor(max_workers=min(4, len(todo)), thread_name_prefix="read") as pool:
            list(pool.map(self._carry_out, todo))

    def _carry_out(self, order: dict[str, Any]) -> None:
        asked = int(self._clock())
        is_demand = order["what"] == "demand"
        what = (order["schedd"] or "the local schedd") if is_demand else "the collector"
        try:
            answer = self._read(order, self._settings.query_timeout_seconds)
            if is_demand:
                self._state.demand_read(order["schedd"], answer, asked)
            else:
                self._state.supply_read(answer, asked)
            self._say(what, "")
        except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a daemon answers
            message = str(error) if isinstance(error, ReadError) else f"unexpected answer: {one_line(repr(error))}"
            self._say(what, message)
            if is_demand:
                self._state.demand_failed(order["schedd"], message)
            else:
                self._state.supply_failed(message)

    def _say(self, what: str, error: str) -> None:
        """Log a failure once, and the recovery, not every refresh in between."""
        if error == self._said.get(what, ""):
            return
        self._said[what] = error
        if error:
            log.warning("%s does not answer: %s; its last answer is kept", what, error)
        else:
            log.info("%s answers again", what)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self.refresh_once()
            self._stop.wait(max(0.0, self._settings.refresh_seconds - (time.monotonic() - began)))
