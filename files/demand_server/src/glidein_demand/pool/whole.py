# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all schedds last answered, taken together: the results of get_demand and get_state, before leases.

The answers stay the texts that they came as until somebody wants to see the groups. Most replies are made in a process
of their own (web/ahead.py), so that the server's one rarely has to.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import waiting
from . import demand, schedds


@dataclass(frozen=True)
class Reading:
    """Last answer of one schedd, and the error of the last attempt when that failed. Times are epoch seconds.

    texts: the answer, one JSON text for each part of it (see schedds.together, of which "limit" and "left" may be
    missing). gone_since: since when the collector, or the configuration, does not know the schedd any more.
    """

    name: str
    as_of: int | None = None
    texts: tuple[bytes, ...] = ()
    error: str | None = None
    gone_since: float | None = None


class Whole:
    """The `readings` of all schedds; those before `fresh_from` are stale. Safe from many threads, never changes.

    about: {"as_of", "schedds"} of get_demand, which costs nothing.
    """

    def __init__(self, readings: Iterable[Reading], fresh_from: float) -> None:
        self.readings = sorted(readings, key=lambda reading: reading.name)
        self.fresh_from = fresh_from
        self.about = _about(self.readings)
        self._lock = threading.Lock()
        self._views: dict[str, Any] | None = None

    @property
    def demand(self) -> dict[str, Any]:
        """The result of get_demand for callers with a token."""
        return self._made()["demand"]

    @property
    def demand_anonymous(self) -> dict[str, Any]:
        """The same for callers without one."""
        return self._made()["demand_anonymous"]

    @property
    def pyglidein(self) -> list[dict[str, Any]]:
        """The result of get_state."""
        return self._made()["pyglidein"]

    def _made(self) -> dict[str, Any]:
        if self._views is None:
            waiting.begins()
            with self._lock:
                if self._views is None:
                    self._views = _views(self.readings, self.fresh_from, self.about)
        return self._views


def _about(readings: Iterable[Reading]) -> dict[str, Any]:
    readings = list(readings)
    return {
        "as_of": _as_of(readings),
        "schedds": {
            "answered": [reading.name for reading in readings if reading.error is None],
            "failed": [
                {"name": reading.name, "error": reading.error, "as_of": reading.as_of}
                for reading in readings
                if reading.error is not None
            ],
        },
    }


def _as_of(readings: Iterable[Reading]) -> int | None:
    """The age of the whole: that of the oldest schedd that answered, so that no part is taken for newer than it is.

    One schedd that is gone must not make it old for ever. When none answered, the newest one tells how old all is.
    """
    known = [reading for reading in readings if reading.as_of is not None]
    answered = [reading.as_of for reading in known if reading.error is None]
    return min(answered) if answered else max((reading.as_of for reading in known), default=None)


def _views(readings: Sequence[Reading], fresh_from: float, about: dict[str, Any]) -> dict[str, Any]:
    groups, unreadable, waiting_for_limit = [], [], []
    for reading in readings:
        if reading.as_of is None:
            continue
        answer = schedds.together(json.loads(text) for text in reading.texts)
        within = demand.within_limit(answer["groups"], answer["left"])
        more = _jobs(answer["groups"]) - _jobs(within)
        if more:
            waiting_for_limit.append({"schedd": reading.name, "count": more, "limit": answer["limit"]})
        unreadable += [{"schedd": reading.name, **row} for row in answer["unreadable"]]
        stale = reading.as_of < fresh_from
        groups += [{**group, "as_of": reading.as_of, "stale": group["count"] if stale else 0} for group in within]
    merged = demand.merge(groups)
    whole = {**about, "groups": merged, "unreadable": unreadable, "waiting_for_limit": waiting_for_limit}
    # What an expression came to may be a text of the user's own: only its place is told to everybody.
    anonymous = {
        **whole,
        "groups": [demand.for_anonymous(group) for group in merged],
        "unreadable": [{key: row[key] for key in ("schedd", "count", "first_job", "attribute")} for row in unreadable],
    }
    return {"demand": whole, "demand_anonymous": anonymous, "pyglidein": demand.pyglidein_state(merged)}


def _jobs(groups: Iterable[dict[str, Any]]) -> int:
    return sum(group["count"] for group in groups)
