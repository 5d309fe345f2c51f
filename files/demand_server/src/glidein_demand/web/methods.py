# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON-RPC methods and their authorization. docs/protocol.md describes them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pjrpc.server
from pjrpc.server.exceptions import InternalError, InvalidParamsError, JsonRpcError
from sqlalchemy.exc import SQLAlchemyError

from ..app_state import AppState
from ..pool.job_lookup import JobName, LookupFailedError
from ..store.reports import FullError
from ..store.site_owners import OwnedError
from . import parameter_checks
from .auth import Caller
from .json_rpc import LimitReachedError, NotReadyError, OtherDeploymentError, UnauthorizedError, UnavailableError
from .read_results import ReadResults
from .refused_calls import RefusedCallLog
from .result_cache import JsonResult

log = logging.getLogger(__name__)

METHOD_NAMES = ("get_state", "monitoring", "get_demand", "get_supply", "get_job", "lease", "report")
DEFAULT_TTL_S = 1800
NO_DATABASE = "the server's database is unavailable; try again, and if the error persists, see the server's log"
_MONITORING_SETTINGS = (
    'without a token it requires server.allow_anonymous_monitoring = true and server.reading = "open"'
)


class Methods:
    """The JSON-RPC methods."""

    def __init__(self, parts: AppState, results: ReadResults) -> None:
        self._parts = parts
        self._results = results
        self._settings = parts.settings
        self._refused_calls = RefusedCallLog()

    def registry(self) -> pjrpc.server.MethodRegistry:
        """Return the methods by name, in pjrpc's registry."""
        registry = pjrpc.server.MethodRegistry()
        for name in METHOD_NAMES:
            registry.add_method(getattr(self, name), name, pass_context="caller")
        return registry

    def get_state(self, caller: Caller) -> JsonResult:
        if caller.kind == "anonymous" and self._settings.reading == "token":
            self._refused_calls.log_once("get_state", "PyGlidein", 'server.reading = "token"')
        _require_read_access(caller, self._settings.reading)
        with _as_rpc_errors():
            return self._results.state(caller)

    def get_demand(self, caller: Caller, sites: Any = None, attributes: Any = None) -> JsonResult:
        _require_read_access(caller, self._settings.reading)
        with _as_rpc_errors():
            if attributes is not None:
                names = parameter_checks.attributes(attributes)
                if caller.is_known:
                    self._parts.requested_attributes.request(caller.name, names)
            return self._results.demand(
                caller, None if sites is None else parameter_checks.sites(sites, self._settings.max_sites)
            )

    def get_supply(self, caller: Caller) -> JsonResult:
        _require_read_access(caller, self._settings.reading)
        with _as_rpc_errors():
            return self._results.supply(caller)

    def get_job(self, caller: Caller, job: Any, schedd: Any = "") -> dict[str, Any]:
        _require_token(caller, "get_job")
        with _as_rpc_errors():
            name = JobName.parse(
                parameter_checks.text("job", job), parameter_checks.text("schedd", "" if schedd is None else schedd)
            )
            return self._results.job(name)

    def lease(
        self, caller: Caller, site: Any, entries: Any, ttl_s: Any = DEFAULT_TTL_S, deployment: Any = None
    ) -> dict[str, Any]:
        _require_site_token(caller, "lease")
        with _as_rpc_errors():
            _require_own_site(caller, parameter_checks.name("site", site))
            requested = parameter_checks.lease_entries(entries)
            seconds = parameter_checks.seconds("ttl_s", ttl_s, self._settings.max_lease_seconds)
            self._use_site(caller, deployment, seconds)
            demand = self._parts.pool_state.snapshot().results.demand()
            if demand["as_of"] is None:
                raise NotReadyError(data="the queue has not been read yet; existing leases are unchanged")
            counts = {group["id"]: group["count"] for group in demand["groups"]}
            paused, most = self._parts.paused()["paused"], self._parts.lease_limits.of(caller.name)
            return self._parts.leases.claim(caller.name, requested, seconds, counts, paused, most)

    def report(
        self,
        caller: Caller,
        site: Any,
        as_of: Any,
        error: Any = None,
        entries: Any = (),
        orphans: Any = 0,
        summaries: Any = None,
        deployment: Any = None,
        unserved: Any = None,
    ) -> dict[str, Any]:
        _require_site_token(caller, "report")
        with _as_rpc_errors():
            given = list(entries) if isinstance(entries, tuple) else entries
            checked = parameter_checks.report(site, as_of, error, given, orphans)
            if unserved is not None:
                checked["unserved"] = parameter_checks.unserved(unserved)
            checked_summaries = None if summaries is None else parameter_checks.summaries(summaries)
            _require_own_site(caller, checked["site"])
            self._use_site(caller, deployment, 0)
            received = int(self._parts.clock())

            def store_rest(is_new: bool) -> None:
                if is_new:
                    self._parts.glideins.reported(checked, received)
                    self._parts.core_hours.reported(checked, received)
                # Also for a report that is older than the last one: ended glideins stay ended, and count once.
                if checked_summaries is not None:
                    self._parts.ended_glideins.add(checked["site"], checked_summaries)

            self._parts.reports.add(_without_glideins(checked), received, store_rest)
            self._results.invalidate_supply()
        return {"accepted": True}

    def monitoring(
        self,
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
        allowed = self._settings.reading == "open" and self._settings.allow_anonymous_monitoring
        anonymous = caller.kind == "anonymous" and allowed
        if caller.kind == "anonymous" and not anonymous:
            self._refused_calls.log_once("monitoring", uuid, _MONITORING_SETTINGS)
            raise UnauthorizedError(data=f"monitoring requires a site's token; {_MONITORING_SETTINGS}")
        if not anonymous:
            _require_site_token(caller, "monitoring")
        flat = {
            "glideins_launched": glideins_launched, "glideins_running": glideins_running,
            "glideins_idle": glideins_idle, "avg_idle_time": avg_idle_time,
            "min_idle_time": min_idle_time, "max_idle_time": max_idle_time,
        }  # fmt: skip
        with _as_rpc_errors():
            client = parameter_checks.text("uuid", uuid, 200)
            if timestamp is not None:
                parameter_checks.number("timestamp", timestamp)
            given, received = flat if metrics is None else metrics, int(self._parts.clock())
            if anonymous:
                checked = parameter_checks.monitoring(given, parameter_checks.MAX_ANONYMOUS_PARTITIONS)
                self._parts.anonymous.add(client, checked, received)
                return ""
            known = self._parts.reports.monitoring().get(client)
            if known is not None and known["site"] != caller.name:
                raise UnauthorizedError(data="the client with this uuid belongs to another site")
            self._parts.reports.add_monitoring(client, parameter_checks.monitoring(given), received, caller.name)
        return ""

    def _use_site(self, caller: Caller, deployment: Any, seconds: int) -> None:
        """Register the deployment as the user of the caller's site, if the caller names a deployment."""
        if deployment is not None:
            deployment_name = parameter_checks.name("deployment", deployment)
            self._parts.site_owners.use(caller.name, deployment_name, seconds, self._parts.tokens.made(caller.name))


def _without_glideins(report: dict[str, Any]) -> dict[str, Any]:
    left_out = ("running_glideins", "running_since")
    entries = [{key: value for key, value in entry.items() if key not in left_out} for entry in report["entries"]]
    return {**report, "entries": entries}


@contextlib.contextmanager
def _as_rpc_errors() -> Iterator[None]:
    """Convert exceptions of the body to JSON-RPC errors."""
    try:
        yield
    except ValueError as error:
        raise InvalidParamsError(data=str(error)) from error
    except FullError as error:
        raise LimitReachedError(data=str(error)) from error
    except OwnedError as error:
        raise OtherDeploymentError(data=str(error)) from error
    except LookupFailedError as error:
        raise UnavailableError(data=str(error)) from error
    except SQLAlchemyError as error:
        raise UnavailableError(data=NO_DATABASE) from error
    except JsonRpcError:
        raise
    except Exception as error:
        # pjrpc would log the callers' parameters and return an unspecific error code.
        log.exception("a method failed")
        raise InternalError from error


def _reject_invalid_token(caller: Caller) -> None:
    if caller.kind == "refused":
        raise UnauthorizedError(data="the token in the Authorization header is invalid")


def _require_read_access(caller: Caller, reading: str) -> None:
    _reject_invalid_token(caller)
    if reading == "token" and not caller.is_known:
        raise UnauthorizedError(data="reading requires the header 'Authorization: Bearer <token>'")


def _require_token(caller: Caller, method: str) -> None:
    _reject_invalid_token(caller)
    if caller.kind == "anonymous":
        raise UnauthorizedError(data=f"{method} requires the header 'Authorization: Bearer <token>'")


def _require_site_token(caller: Caller, method: str) -> None:
    _require_token(caller, method)
    if caller.kind != "site":
        raise UnauthorizedError(data=f"{method} requires a site's token; {caller.name} is a reader")


def _require_own_site(caller: Caller, site: str) -> None:
    if caller.name != site:
        raise UnauthorizedError(data=f"the token belongs to site {caller.name}, not to {site}")
