# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blueprints: JSON-RPC, plain resources, the status page, and the metrics."""

from __future__ import annotations

from typing import Any

import flask

from .. import result_cache
from ..pool.job_lookup import JobName, LookupFailedError
from . import (
    charts,
    methods,
    page,
    read_results,
    responses,
    rpc,
    usage,
)
from . import metrics as metrics_
from .current import current_server
from .health import health
from .page_context import PageContext
from .rpc import RpcError

json_rpc = flask.Blueprint("rpc", __name__)
api = flask.Blueprint("api", __name__)
pages = flask.Blueprint("pages", __name__)
metrics = flask.Blueprint("metrics", __name__)


@json_rpc.post(responses.RPC_PATH)
def call() -> flask.Response:
    """Answer a JSON-RPC request or batch."""
    if not flask.request.is_json:
        error = RpcError(rpc.INVALID_REQUEST, "the Content-Type must be application/json")
        return responses.from_rpc(rpc.error_response(error))
    server, caller = current_server(), flask.g.caller
    body = flask.request.get_data()
    return responses.from_rpc(rpc.handle(body, lambda method, params: methods.call(server, caller, method, params)))


@api.get("/demand")
def demand() -> flask.Response:
    """Return the result of get_demand."""
    return responses.from_result(read_results.demand(current_server(), flask.g.caller, None))


@api.get("/supply")
def supply() -> flask.Response:
    """Return the result of get_supply."""
    return responses.from_result(read_results.supply(current_server(), flask.g.caller))


@api.get("/history")
def history() -> flask.Response:
    """Return the history for the page's charts."""
    try:
        return responses.from_result(
            read_results.history(current_server(), flask.request.args.get("range", charts.DEFAULT_RANGE))
        )
    except ValueError as error:
        return responses.error(400, str(error))


@api.get("/usage")
def core_hours() -> flask.Response:
    """Return core-hours by month or day, or usage records of them, as JSON or CSV."""
    server = current_server()
    now = server.clock()
    try:
        wanted = usage.parse(flask.request.args, now, flask.g.caller.is_known)
    except ValueError as error:
        return responses.error(400, str(error))
    except usage.UsersHiddenError as error:
        return responses.unauthorized(str(error))
    if wanted.layout == "records":
        rows = usage.records_of(server.core_hours, wanted, server.settings.pool.vo, now)
        key, name = "records", "usage-records.csv"
    else:
        rows = usage.rows_of(server.core_hours, wanted)
        key, name = "rows", "core-hours.csv"
    if wanted.format == "csv":
        headers = {"Content-Disposition": f"attachment; filename={name}"}
        return flask.Response(usage.csv_of(wanted, rows), content_type="text/csv; charset=utf-8", headers=headers)
    reply = {"as_of": int(now), "per": wanted.per, "by": wanted.by, key: rows}
    return responses.from_json(result_cache.dump(reply))


@api.get("/healthz")
def healthz() -> flask.Response:
    """Return the health of the server, with HTTP status 503 if the demand is stale or the database fails."""
    server = current_server()
    include_names = server.settings.server.reading == "open" or flask.g.caller.is_known
    state = health(server.pool_state.snapshot().results.about, server.settings, server.clock(), include_names)
    if server.database.problem():
        state["status"] = "no database"
    return responses.from_json(result_cache.dump(state), 200 if state["status"] == "ok" else 503)


def _job(asked: str) -> dict[str, Any]:
    """Return PageContext.job."""
    query = asked[:300]
    try:
        return {"query": query, "result": read_results.job(current_server(), JobName.parse(query))}
    except (ValueError, LookupFailedError) as error:
        return {"query": query, "error": str(error)}


@pages.get("/")
def status() -> str | flask.Response:
    """Return the status page."""
    server = current_server()
    now = server.clock()
    asked = flask.request.args.get("job", "").strip()
    if asked and not flask.g.caller.is_known:
        return responses.unauthorized("reading a job requires a token")
    page_context = PageContext(
        settings=server.settings,
        now=now,
        demand=server.pool_state.snapshot().results.demand(),
        supply=read_results.supply(server, flask.g.caller).value,
        reports=server.reports.reports(),
        monitoring=server.clients.recent(now),
        anonymous=server.anonymous.recent(now),
        leases=server.leases.rows(),
        pause=server.pause.state(),
        history=read_results.history(server, charts.range_or_default(flask.request.args.get("range"))).value,
        usage=read_results.usage(server, flask.g.caller).value,
        caller_has_token=flask.g.caller.is_known,
        job=_job(asked) if asked else None,
        can_report=any(row["kind"] == "site" for row in server.tokens.rows()),
    )
    return flask.render_template("status.html", **page.template_variables(page_context))


@metrics.get("/metrics")
def prometheus() -> flask.Response:
    """Return the metrics for Prometheus."""
    return flask.Response(metrics_.text(current_server()), mimetype="text/plain; version=0.0.4; charset=utf-8")
