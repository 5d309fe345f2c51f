# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the web needs of the rest of the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from ..config import Settings
    from ..pool.readings import Readings
    from ..pool.removals import Removals
    from ..pool.wanted import Wanted
    from ..store.anonymous import AnonymousClients
    from ..store.glideins import Glideins
    from ..store.history import History
    from ..store.lease_limits import LeaseLimits
    from ..store.leases import Leases
    from ..store.owners import Owners
    from ..store.passed import PassedOver
    from ..store.reports import Reports
    from ..store.samples import Samples
    from ..store.switch import Switch
    from ..store.tokens import Tokens
    from ..store.watch import Watch
    from ..store.work import Work


@dataclass(frozen=True)
class Parts:
    """The parts of one running server; all of them are safe to use from many threads. `clock` gives epoch seconds."""

    settings: Settings
    readings: Readings
    leases: Leases
    tokens: Tokens
    reports: Reports
    switch: Switch
    history: History
    glideins: Glideins
    samples: Samples
    passed_over: PassedOver
    work: Work
    anonymous: AnonymousClients
    watch: Watch
    owners: Owners
    lease_limits: LeaseLimits
    wanted: Wanted
    removals: Removals
    clock: Callable[[], float]

    def paused(self, now: bool = False) -> dict[str, Any]:
        """The switch as it works: {"paused", "since", "reason", "by"}; the configuration can only turn it on.

        now: as it is at this moment, and not up to half a second ago.
        """
        state = self.switch.state(now)
        if self.settings.paused and not state["paused"]:
            return {"paused": True, "since": None, "reason": "server.paused = true", "by": "configuration"}
        return state
