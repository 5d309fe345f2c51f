# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON-RPC methods and their authorization. docs/protocol.md describes them."""

from __future__ import annotations

import logging
import threading
from typing import Any, Callable

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from ..pool.job_lookup import JobName, LookupFailedError
from ..result_cache import JsonResult
from ..server import Server
from ..store.leases import OwnedError
from ..store.reports import FullError
from ..store.tokens import Caller
from . import results, rpc
from .parameters import (
    GetDemand,
    GetJob,
    Lease,
    Monitoring,
    NoParameters,
    Report,
    checked,
    truncated,
)
from .rpc import RpcError

log = logging.getLogger(__name__)

_counting = threading.Lock()

NO_DATABASE = "the server's database is unavailable; try again, and if the error persists, see the server's log"
MAX_UUID_CHARS = 200


def call(server: Server, caller: Caller, name: str, params: Any) -> Any:
    """Return the result of the method `name`, and count the call. Raise RpcError."""
    outcome = "error"
    try:
        result = _call(server, caller, name, params)
        outcome = "ok"
        return result
    finally:
        # Unknown methods count as "other", so that callers cannot create series.
        with _counting:
            server.calls[name if name in METHODS else "other", outcome] += 1


def _call(server: Server, caller: Caller, name: str, params: Any) -> Any:
    if name not in METHODS:
        raise RpcError(rpc.METHOD_NOT_FOUND)
    if caller.kind == "refused":
        raise RpcError(rpc.UNAUTHORIZED, "the token in the Authorization header is invalid")
    struct, method = METHODS[name]
    try:
        return method(server, caller, checked(params, struct))
    except RpcError:
        raise
    except ValueError as error:
        raise RpcError(rpc.INVALID_PARAMS, str(error)) from error
    except FullError as error:
        raise RpcError(rpc.LIMIT_REACHED, str(error)) from error
    except OwnedError as error:
        raise RpcError(rpc.OTHER_DEPLOYMENT, str(error)) from error
    except LookupFailedError as error:
        raise RpcError(rpc.UNAVAILABLE, str(error)) from error
    except SQLAlchemyError as error:
        raise RpcError(rpc.UNAVAILABLE, NO_DATABASE) from error
    except Exception as error:
        log.exception("a method failed")
        raise RpcError(rpc.INTERNAL_ERROR, "an error in the server; its log has the details") from error


def get_state(server: Server, caller: Caller, _params: NoParameters) -> JsonResult:
    _require_access_of_client(server, caller, "get_state", "PyGlidein")
    return results.state(server, caller)


def get_demand(server: Server, caller: Caller, params: GetDemand) -> JsonResult:
    _require_read_access(caller, server.settings.server.reading)
    if params.attributes is not None and caller.is_known:
        server.requested_attributes.request(caller.name, params.attributes)
    return results.demand(server, caller, None if params.sites is None else frozenset(params.sites))


def get_supply(server: Server, caller: Caller, _params: NoParameters) -> JsonResult:
    _require_read_access(caller, server.settings.server.reading)
    return results.supply(server, caller.is_known)


def get_job(server: Server, caller: Caller, params: GetJob) -> dict[str, Any]:
    _require_token(caller, "get_job")
    return results.job(server, JobName.parse(params.job))


def lease(server: Server, caller: Caller, params: Lease) -> dict[str, Any]:
    _require_own_site(caller, "lease", params.site)
    _use_site(server, caller, params.deployment, params.ttl_s)
    demand = server.pool_state.snapshot().results.demand()
    if demand["as_of"] is None:
        raise RpcError(rpc.NOT_READY, "the queue has not been read yet; existing leases are unchanged")
    # While the server is paused, every lease is zero.
    groups = () if server.pause.state()["paused"] else demand["groups"]
    counts = {group["id"]: group["count"] for group in groups}
    most = server.lease_limits.of(caller.name)
    return server.leases.claim(caller.name, params.entries, params.ttl_s, counts, most)


def report(server: Server, caller: Caller, params: Report) -> dict[str, Any]:
    _require_own_site(caller, "report", params.site)
    report = msgspec.to_builtins(params)
    del report["deployment"]
    summaries = report.pop("summaries")
    if params.unserved is None:
        del report["unserved"]
    received = int(server.clock())

    with server.database.begin():  # all is stored, or nothing
        _use_site(server, caller, params.deployment, 0)
        if server.reports.add(_without_glideins(report), received):
            server.glideins.reported(report, received)
            server.core_hours.reported(report, received)
        # Also for a report that is older than the last one: ended glideins stay ended, and count once.
        if summaries is not None:
            server.glideins.ended(params.site, summaries, received)
    server.supply_cache.clear()
    return {"accepted": True}


def monitoring(server: Server, caller: Caller, params: Monitoring) -> str:
    uuid = truncated(str(params.uuid), MAX_UUID_CHARS)
    _require_access_of_client(server, caller, "monitoring", uuid)
    metrics = (params if params.metrics is None else params.metrics).by_partition()
    server.clients.add(uuid, metrics, int(server.clock()))
    return ""


def _use_site(server: Server, caller: Caller, deployment: str | None, seconds: int) -> None:
    """Register the deployment as the user of the caller's site, if the caller names a deployment."""
    if deployment is not None:
        server.site_owners.use(caller.name, deployment, seconds, caller.created)


METHODS: dict[str, tuple[type[msgspec.Struct], Callable[[Server, Caller, Any], Any]]] = {
    "get_state": (NoParameters, get_state),
    "monitoring": (Monitoring, monitoring),
    "get_demand": (GetDemand, get_demand),
    "get_supply": (NoParameters, get_supply),
    "get_job": (GetJob, get_job),
    "lease": (Lease, lease),
    "report": (Report, report),
}
"""The parameters of each method, and its function."""


def _without_glideins(report: dict[str, Any]) -> dict[str, Any]:
    left_out = ("running_glideins", "running_since")
    entries = [{key: value for key, value in entry.items() if key not in left_out} for entry in report["entries"]]
    return {**report, "entries": entries}


def _require_read_access(caller: Caller, reading: str) -> None:
    if reading == "token" and not caller.is_known:
        raise RpcError(rpc.UNAUTHORIZED, "reading requires the header 'Authorization: Bearer <token>'")


def _require_access_of_client(server: Server, caller: Caller, method: str, client: str) -> None:
    """Require read access, and log a refused client of PyGlidein: it cannot send a token."""
    reading = server.settings.server.reading
    if caller.kind == "anonymous" and reading == "token":
        server.clients.log_refused(method, client)
    _require_read_access(caller, reading)


def _require_token(caller: Caller, method: str) -> None:
    if caller.kind == "anonymous":
        raise RpcError(rpc.UNAUTHORIZED, f"{method} requires the header 'Authorization: Bearer <token>'")


def _require_own_site(caller: Caller, method: str, site: str) -> None:
    _require_token(caller, method)
    if caller.kind != "site":
        raise RpcError(rpc.UNAUTHORIZED, f"{method} requires a site's token; {caller.name} is a reader")
    if caller.name != site:
        raise RpcError(rpc.UNAUTHORIZED, f"the token belongs to site {caller.name}, not to {site}")
