# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be known from one reading of the collector to the next: into the order, out of the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from . import supply


class _Samples(Protocol):
    def add(self, rows: Iterable[Mapping[str, Any]], now: int) -> None: ...
    def fresh(self, now: int) -> list[list[str]]: ...
    def token_sites(self, now: int) -> list[str]: ...


class _Glideins(Protocol):
    def registered(self, rows: Iterable[Iterable[Any]], now: int) -> None: ...


class _Machines(Protocol):
    def machines_read(self, idle: list[Any]) -> None: ...


class Following:
    """Stands between the refresh and the stores (store.samples.Samples, store.glideins.Glideins), and passing.Passing.

    The memory of slots is in memory only: after a restart, slots count as free for a few cycles longer.
    """

    def __init__(self, glideins: _Glideins, samples: _Samples, passing: _Machines | None = None) -> None:
        self._glideins = glideins
        self._samples = samples
        self._passing = passing
        self._lock = threading.Lock()
        self._memory: dict[str, Any] = {}

    def order(self, now: int) -> dict[str, Any]:
        """What supply.read wants to know besides "what", "collector" and "now" (epoch seconds)."""
        with self._lock:
            memory = self._memory
        return {
            "memory": memory,
            "token_sites": self._samples.token_sites(now),
            "sampled": self._samples.fresh(now),
        }

    def answered(self, answer: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Take in an answer to an order of `now`; return what of it is the supply that callers see."""
        with self._lock:
            self._memory = answer["memory"]
        self._samples.add(answer["samples"], now)
        self._glideins.registered(answer["glideins"], now)
        if self._passing is not None:
            self._passing.machines_read(answer["idle"])
        return {key: value for key, value in answer.items() if key not in supply.APART}
