# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that all requests of one Flask application share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import flask

from ..app_state import AppState
from .methods import Methods
from .metrics import Metrics
from .rate_limit import RateLimit
from .read_results import ReadResults

if TYPE_CHECKING:
    from ..config import Settings

EXTENSION = "glidein_demand"


@dataclass(frozen=True)
class AppServices:
    """The shared objects. All of them are safe for concurrent use by several threads."""

    parts: AppState
    results: ReadResults
    rate: RateLimit
    metrics: Metrics
    methods: Methods

    @property
    def settings(self) -> Settings:
        """Return the settings of the server."""
        return self.parts.settings

    def seconds_to_wait(self, calls: int = 1) -> int:
        """Count calls of the current request's caller; return 0 if they are allowed, else the seconds until a retry."""
        wait = self.rate.hit(flask.g.rate_limit_key, calls)
        if wait:
            self.metrics.limited()
        return wait


def current_services() -> AppServices:
    """Return the shared objects of the current Flask application."""
    return flask.current_app.extensions[EXTENSION]
