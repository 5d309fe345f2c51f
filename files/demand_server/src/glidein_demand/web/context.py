# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that all requests of one application share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import flask
import pjrpc.server

from ..app_state import AppState
from .auth import Caller
from .limits import RateLimit
from .metrics import Metrics
from .views import Views

if TYPE_CHECKING:
    from ..config import Settings

EXTENSION = "glidein_demand"


@dataclass(frozen=True)
class Context:
    """The shared objects; all of them are safe to use from many threads."""

    parts: AppState
    views: Views
    rate: RateLimit
    metrics: Metrics
    dispatcher: pjrpc.server.Dispatcher[Caller]

    @property
    def settings(self) -> Settings:
        """Return the settings of the server."""
        return self.parts.settings

    def seconds_to_wait(self, calls: int = 1) -> int:
        """Count calls of the present request's caller; return 0 if they are allowed, else when to try again."""
        wait = self.rate.hit(flask.g.who, calls)
        if wait:
            self.metrics.limited()
        return wait


def current() -> Context:
    """Return the objects of the application that answers the present request."""
    return flask.current_app.extensions[EXTENSION]
