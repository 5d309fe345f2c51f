# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state that the server keeps between two queries of the collector."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from . import supply
from .passed_over_detector import PassedOverDetector


class _MachineAds(Protocol):
    def add(self, rows: Iterable[Mapping[str, Any]], now: int) -> None: ...
    def recent(self, now: int) -> list[list[Any]]: ...
    def token_sites(self, now: int) -> list[str]: ...


class _Glideins(Protocol):
    def registered(self, rows: Iterable[Sequence[Any]], now: int) -> None: ...


class _CoreHours(Protocol):
    def jobs_seen(self, rows: Iterable[Sequence[Any]], now: int) -> None: ...


class CollectorState:
    """The state between two queries of the collector: slot states in memory, the rest in the stores.

    The stores are store.machine_ads.MachineAds, store.glideins.Glideins and store.core_hours.CoreHours. A restart
    loses the slot states: slots count as free for a few negotiation cycles longer.
    """

    def __init__(
        self,
        glideins: _Glideins,
        machine_ads: _MachineAds,
        passed_over: PassedOverDetector | None = None,
        core_hours: _CoreHours | None = None,
    ) -> None:
        self._glideins = glideins
        self._machine_ads = machine_ads
        self._passed_over = passed_over
        self._core_hours = core_hours
        self._lock = threading.Lock()
        self._slot_states: dict[str, Any] = {}

    def query_parameters(self, now: int) -> dict[str, Any]:
        """Return the parameters of supply.read except those of the settings, "type" and "now".

        now: epoch seconds.
        """
        with self._lock:
            slot_states = self._slot_states
        return {
            "slot_states": slot_states,
            "token_sites": self._machine_ads.token_sites(now),
            "sampled": self._machine_ads.recent(now),
        }

    def store_result(self, result: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Store the result of a query of `now`, and return the part of it that callers may read."""
        with self._lock:
            self._slot_states = result["slot_states"]
        self._machine_ads.add(result["samples"], now)
        self._glideins.registered(result["glideins"], now)
        if self._core_hours is not None:
            self._core_hours.jobs_seen(result["job_cores"], now)
        if self._passed_over is not None:
            self._passed_over.store_empty_glideins(result["empty_glideins"])
        return {key: value for key, value in result.items() if key not in supply.INTERNAL_KEYS}
