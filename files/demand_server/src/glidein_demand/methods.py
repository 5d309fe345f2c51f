# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods that can be called, and who may call them."""

from __future__ import annotations

import time
from typing import Any, Callable

import pjrpc.server
from pjrpc.server.exceptions import InvalidParamsError

from . import report as checks
from .auth import Caller
from .config import Settings
from .rpc import FullUpError, UnauthorizedError
from .state import FullError, State


def registry(state: State, settings: Settings, clock: Callable[[], float] = time.time) -> pjrpc.server.MethodRegistry:
    """The methods over `state`. `clock` gives epoch seconds."""
    methods = pjrpc.server.MethodRegistry()

    @methods.add(pass_context="caller")
    def get_state(caller: Caller) -> list[dict[str, Any]]:
        _not_refused(caller)
        return state.snapshot().pyglidein

    @methods.add(pass_context="caller")
    def monitoring(
        caller: Caller,
        uuid: Any,
        timestamp: Any = None,
        metrics: Any = None,
        glideins_launched: Any = None,
        glideins_running: Any = None,
        glideins_idle: Any = None,
        avg_idle_time: Any = None,
        min_idle_time: Any = None,
        max_idle_time: Any = None,
    ) -> str:
        if not settings.allow_anonymous_monitoring or caller is Caller.REFUSED:
            _needs_token(caller, "monitoring")
        flat = {
            "glideins_launched": glideins_launched, "glideins_running": glideins_running,
            "glideins_idle": glideins_idle, "avg_idle_time": avg_idle_time,
            "min_idle_time": min_idle_time, "max_idle_time": max_idle_time,
        }  # fmt: skip
        try:
            client = checks.text("uuid", uuid, 200)
            if timestamp is not None:
                checks.number("timestamp", timestamp)
            state.add_monitoring(client, checks.monitoring(flat if metrics is None else metrics), int(clock()))
        except ValueError as error:
            raise InvalidParamsError(data=str(error)) from error
        except FullError as error:
            raise FullUpError(data=str(error)) from error
        return ""

    @methods.add(pass_context="caller")
    def get_demand(caller: Caller) -> dict[str, Any]:
        _not_refused(caller)
        snapshot = state.snapshot()
        return snapshot.demand if caller is Caller.TOKEN else snapshot.demand_anonymous

    @methods.add(pass_context="caller")
    def get_supply(caller: Caller) -> dict[str, Any]:
        _not_refused(caller)
        return state.snapshot().supply

    @methods.add(pass_context="caller")
    def report(
        caller: Caller, site: Any, as_of: Any, error: Any = None, entries: Any = (), orphans: Any = 0
    ) -> dict[str, Any]:
        _needs_token(caller, "report")
        try:
            given = list(entries) if isinstance(entries, tuple) else entries
            state.add_report(checks.report(site, as_of, error, given, orphans), int(clock()))
        except ValueError as problem:
            raise InvalidParamsError(data=str(problem)) from problem
        except FullError as problem:
            raise FullUpError(data=str(problem)) from problem
        return {"accepted": True}

    return methods


def _not_refused(caller: Caller) -> None:
    if caller is Caller.REFUSED:
        raise UnauthorizedError(data="the Authorization header does not carry this server's token")


def _needs_token(caller: Caller, method: str) -> None:
    _not_refused(caller)
    if caller is not Caller.TOKEN:
        raise UnauthorizedError(data=f"{method} needs the header 'Authorization: Bearer <token>'")
