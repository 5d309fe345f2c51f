# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be known from one reading of the collector to the next: into the order, out of the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from . import supply


class _MachineAds(Protocol):
    def add(self, rows: Iterable[Mapping[str, Any]], now: int) -> None: ...
    def recent(self, now: int) -> list[list[str]]: ...
    def token_sites(self, now: int) -> list[str]: ...


class _Glideins(Protocol):
    def registered(self, rows: Iterable[Iterable[Any]], now: int) -> None: ...


class _Machines(Protocol):
    def machines_read(self, idle: list[Any]) -> None: ...


class Following:
    """Connects the refresh with store.machine_ads.MachineAds, store.glideins.Glideins and passing.Passing.

    The memory of slots is in memory only: after a restart, slots count as free for a few cycles longer.
    """

    def __init__(self, glideins: _Glideins, machine_ads: _MachineAds, passing: _Machines | None = None) -> None:
        self._glideins = glideins
        self._machine_ads = machine_ads
        self._passing = passing
        self._lock = threading.Lock()
        self._memory: dict[str, Any] = {}

    def order(self, now: int) -> dict[str, Any]:
        """What supply.read wants to know besides "what", "collector" and "now" (epoch seconds)."""
        with self._lock:
            memory = self._memory
        return {
            "memory": memory,
            "token_sites": self._machine_ads.token_sites(now),
            "sampled": self._machine_ads.recent(now),
        }

    def answered(self, answer: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Take in an answer to an order of `now`; return what of it is the supply that callers see."""
        with self._lock:
            self._memory = answer["memory"]
        self._machine_ads.add(answer["samples"], now)
        self._glideins.registered(answer["glideins"], now)
        if self._passing is not None:
            self._passing.machines_read(answer["idle"])
        return {key: value for key, value in answer.items() if key not in supply.APART}
