# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods that can be called, and who may call them. docs/protocol.md describes them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pjrpc.server
from pjrpc.server.exceptions import InternalError, InvalidParamsError, JsonRpcError
from sqlalchemy.exc import SQLAlchemyError

from ..app_state import AppState
from ..store.reports import FullError
from ..store.site_owners import OwnedError
from . import checks
from .auth import Caller
from .refusals import Refusals
from .replies import Result
from .rpc import FullUpError, NotReadyError, OtherDeploymentError, UnauthorizedError, UnavailableError
from .views import Views

log = logging.getLogger(__name__)

NAMES = ("get_state", "monitoring", "get_demand", "get_supply", "lease", "report")
DEFAULT_TTL_S = 1800
NO_DATABASE = "the server's database cannot be used; try again, and if it stays so see the server's log for the remedy"
_MONITORING_SETTINGS = 'without one it needs server.allow_anonymous_monitoring = true and server.reading = "open"'


class Methods:
    """The methods over `parts`; large results come from `views`."""

    def __init__(self, parts: AppState, views: Views) -> None:
        self._parts = parts
        self._views = views
        self._settings = parts.settings
        self._refusals = Refusals()

    def registry(self) -> pjrpc.server.MethodRegistry:
        """Return the methods by name, as pjrpc takes them."""
        found = pjrpc.server.MethodRegistry()
        for name in NAMES:
            found.add_method(getattr(self, name), name, pass_context="caller")
        return found

    def get_state(self, caller: Caller) -> Result:
        if caller.kind == "anonymous" and self._settings.reading == "token":
            self._refusals.refused("get_state", "PyGlidein", 'server.reading = "token"')
        _may_read(caller, self._settings.reading)
        with _told():
            return self._views.state(caller)

    def get_demand(self, caller: Caller, sites: Any = None, attributes: Any = None) -> Result:
        _may_read(caller, self._settings.reading)
        with _told():
            if attributes is not None:
                names = checks.attributes(attributes)
                if caller.is_known:
                    self._parts.requested_attributes.request(caller.name, names)
            return self._views.demand(caller, None if sites is None else checks.sites(sites, self._settings.max_sites))

    def get_supply(self, caller: Caller) -> Result:
        _may_read(caller, self._settings.reading)
        with _told():
            return self._views.supply(caller)

    def lease(
        self, caller: Caller, site: Any, entries: Any, ttl_s: Any = DEFAULT_TTL_S, deployment: Any = None
    ) -> dict[str, Any]:
        _must_be_site(caller, "lease")
        with _told():
            _must_be_its_own(caller, checks.name("site", site))
            claims = checks.claims(entries)
            seconds = checks.seconds("ttl_s", ttl_s, self._settings.max_lease_seconds)
            self._use_site(caller, deployment, seconds)
            demand = self._parts.pool_state.snapshot().results.demand()
            if demand["as_of"] is None:
                raise NotReadyError(data="the queue has not been read yet; leases that exist stay as they are")
            counts = {group["id"]: group["count"] for group in demand["groups"]}
            paused, most = self._parts.paused(now=True)["paused"], self._parts.lease_limits.of(caller.name)
            return self._parts.leases.claim(caller.name, claims, seconds, counts, paused, most)

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
        _must_be_site(caller, "report")
        with _told():
            given = list(entries) if isinstance(entries, tuple) else entries
            checked = checks.report(site, as_of, error, given, orphans)
            if unserved is not None:
                checked["unserved"] = checks.unserved(unserved)
            told = None if summaries is None else checks.summaries(summaries)
            _must_be_its_own(caller, checked["site"])
            self._use_site(caller, deployment, 0)
            received = int(self._parts.clock())
            if self._parts.reports.add(_without_glideins(checked), received):
                self._parts.glideins.reported(checked, received)
            # Also of a report that was overtaken: what has ended stays so, and counts once.
            if told is not None:
                self._parts.glidein_usage.add(checked["site"], told)
            self._views.reported()
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
            self._refusals.refused("monitoring", uuid, _MONITORING_SETTINGS)
            raise UnauthorizedError(data=f"monitoring needs a site's token; {_MONITORING_SETTINGS}")
        if not anonymous:
            _must_be_site(caller, "monitoring")
        flat = {
            "glideins_launched": glideins_launched, "glideins_running": glideins_running,
            "glideins_idle": glideins_idle, "avg_idle_time": avg_idle_time,
            "min_idle_time": min_idle_time, "max_idle_time": max_idle_time,
        }  # fmt: skip
        with _told():
            client = checks.text("uuid", uuid, 200)
            if timestamp is not None:
                checks.number("timestamp", timestamp)
            given, received = flat if metrics is None else metrics, int(self._parts.clock())
            if anonymous:
                checked = checks.monitoring(given, checks.MAX_ANONYMOUS_PARTITIONS)
                self._parts.anonymous.add(client, checked, received)
                return ""
            known = self._parts.reports.monitoring().get(client)
            if known is not None and known["site"] != caller.name:
                raise UnauthorizedError(data="the client of this uuid is another site's")
            self._parts.reports.add_monitoring(client, checks.monitoring(given), received, caller.name)
        return ""

    def _use_site(self, caller: Caller, deployment: Any, seconds: int) -> None:
        """Let a deployment use the caller's site. Callers that name none are not checked."""
        if deployment is not None:
            named = checks.name("deployment", deployment)
            self._parts.site_owners.use(caller.name, named, seconds, self._parts.tokens.made(caller.name))


def _without_glideins(report: dict[str, Any]) -> dict[str, Any]:
    entries = [{key: value for key, value in entry.items() if key != "running_glideins"} for entry in report["entries"]]
    return {**report, "entries": entries}


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What goes wrong inside, as errors of JSON-RPC."""
    try:
        yield
    except ValueError as error:
        raise InvalidParamsError(data=str(error)) from error
    except FullError as error:
        raise FullUpError(data=str(error)) from error
    except OwnedError as error:
        raise OtherDeploymentError(data=str(error)) from error
    except SQLAlchemyError as error:
        raise UnavailableError(data=NO_DATABASE) from error
    except JsonRpcError:
        raise
    except Exception as error:
        # pjrpc would log it with the parameters, which callers send, and answer with a code that says nothing.
        log.exception("a method failed")
        raise InternalError from error


def _not_refused(caller: Caller) -> None:
    if caller.kind == "refused":
        raise UnauthorizedError(data="the Authorization header does not carry a token that this server knows")


def _may_read(caller: Caller, reading: str) -> None:
    _not_refused(caller)
    if reading == "token" and not caller.is_known:
        raise UnauthorizedError(data="reading needs the header 'Authorization: Bearer <token>' here")


def _must_be_site(caller: Caller, method: str) -> None:
    _not_refused(caller)
    if caller.kind == "anonymous":
        raise UnauthorizedError(data=f"{method} needs the header 'Authorization: Bearer <token>'")
    if caller.kind != "site":
        raise UnauthorizedError(data=f"{method} needs a site's token; {caller.name} is a reader")


def _must_be_its_own(caller: Caller, site: str) -> None:
    if caller.name != site:
        raise UnauthorizedError(data=f"the token is of site {caller.name}, not of {site}")
