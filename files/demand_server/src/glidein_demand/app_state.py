# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a running server that the requests and the history recorder use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from .config import Settings
from .pool.job_lookup import JobLookup
from .pool.pool_state import PoolState
from .pool.removals import Removals
from .pool.requested_attributes import RequestedAttributes
from .store.anonymous import AnonymousClients
from .store.core_hours import CoreHours
from .store.ended_glideins import EndedGlideins
from .store.glideins import Glideins
from .store.history import History
from .store.lease_limits import LeaseLimits
from .store.leases import Leases
from .store.machine_ads import MachineAds
from .store.passed_over_groups import PassedOverGroups
from .store.pause import Pause
from .store.reports import Reports
from .store.site_owners import SiteOwners
from .store.tokens import Tokens
from .store.watch import Watch


@dataclass(frozen=True)
class AppState:
    """The parts of one running server; all of them are safe to use from many threads. `clock` returns epoch seconds."""

    settings: Settings
    pool_state: PoolState
    jobs: JobLookup
    leases: Leases
    tokens: Tokens
    reports: Reports
    pause: Pause
    history: History
    glideins: Glideins
    machine_ads: MachineAds
    passed_over: PassedOverGroups
    ended_glideins: EndedGlideins
    core_hours: CoreHours
    anonymous: AnonymousClients
    watch: Watch
    site_owners: SiteOwners
    lease_limits: LeaseLimits
    requested_attributes: RequestedAttributes
    removals: Removals
    clock: Callable[[], float]

    def paused(self) -> dict[str, Any]:
        """Return {"paused", "since", "reason", "by"}: paused by the operator's command or by the configuration."""
        state = self.pause.state()
        if self.settings.paused and not state["paused"]:
            return {"paused": True, "since": None, "reason": "server.paused = true", "by": "configuration"}
        return state
