# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blueprints: JSON-RPC, plain resources, the status page, and the metrics."""

from __future__ import annotations

from typing import Any

import flask

from ..pool.job_lookup import JobName, LookupFailedError
from . import charts, json_rpc, page, responses, result_cache, usage
from .app_services import current_services
from .health import health
from .json_rpc import exceptions
from .page_context import PageContext

rpc = flask.Blueprint("rpc", __name__)
api = flask.Blueprint("api", __name__)
pages = flask.Blueprint("pages", __name__)
metrics = flask.Blueprint("metrics", __name__)


@rpc.post(responses.RPC_PATH)
def call() -> flask.Response:
    """Answer a JSON-RPC request or batch."""
    services = current_services()
    if not flask.request.is_json:
        error = exceptions.InvalidRequestError(data="the Content-Type must be application/json")
        return responses.from_rpc(json_rpc.error_response(error))
    return responses.from_rpc(
        json_rpc.handle(
            services.dispatcher,
            flask.request.get_data(),
            flask.g.caller,
            services.seconds_to_wait,
            services.metrics.called,
        )
    )


@api.get("/demand")
def demand() -> flask.Response:
    """Return the result of get_demand."""
    return responses.from_result(current_services().results.demand(flask.g.caller, None))


@api.get("/supply")
def supply() -> flask.Response:
    """Return the result of get_supply."""
    return responses.from_result(current_services().results.supply(flask.g.caller))


@api.get("/history")
def history() -> flask.Response:
    """Return the history for the page's charts."""
    try:
        return responses.from_result(
            current_services().results.history(flask.request.args.get("range", charts.DEFAULT_RANGE))
        )
    except ValueError as error:
        return responses.error(400, str(error))


@api.get("/usage")
def core_hours() -> flask.Response:
    """Return core-hours by month or day, or usage records of them, as JSON or CSV."""
    parts = current_services().parts
    now = parts.clock()
    try:
        wanted = usage.parse(flask.request.args, now, flask.g.caller.is_known)
    except ValueError as error:
        return responses.error(400, str(error))
    except usage.UsersHiddenError as error:
        return responses.unauthorized(str(error))
    if wanted.layout == "records":
        rows = usage.records_of(parts.core_hours, wanted, parts.settings.vo, now)
        key, name = "records", "usage-records.csv"
    else:
        rows = usage.rows_of(parts.core_hours, wanted)
        key, name = "rows", "core-hours.csv"
    if wanted.format == "csv":
        headers = {"Content-Disposition": f"attachment; filename={name}"}
        return flask.Response(usage.csv_of(wanted, rows), content_type="text/csv; charset=utf-8", headers=headers)
    reply = {"as_of": int(now), "per": wanted.per, "by": wanted.by, key: rows}
    return responses.from_json(result_cache.dump(reply))


@api.get("/healthz")
def healthz() -> flask.Response:
    """Return the health of the server, with HTTP status 503 if the demand is stale or the database fails."""
    parts = current_services().parts
    include_names = parts.settings.reading == "open" or flask.g.caller.is_known
    state = health(parts.pool_state.snapshot().results.about, parts.settings, parts.clock(), include_names)
    if parts.watch.problem:
        state["status"] = "no database"
    return responses.from_json(result_cache.dump(state), 200 if state["status"] == "ok" else 503)


def _job(asked: str) -> dict[str, Any]:
    """Return PageContext.job."""
    query = asked[:300]
    try:
        return {"query": query, "result": current_services().results.job(JobName.parse(query))}
    except (ValueError, LookupFailedError) as error:
        return {"query": query, "error": str(error)}


@pages.get("/")
def status() -> str | flask.Response:
    """Return the status page."""
    services = current_services()
    parts, results = services.parts, services.results
    now = parts.clock()
    asked = flask.request.args.get("job", "").strip()
    if asked and not flask.g.caller.is_known:
        return responses.unauthorized("reading a job requires a token")
    page_context = PageContext(
        settings=parts.settings,
        now=now,
        demand=parts.pool_state.snapshot().results.demand(),
        supply=results.supply(flask.g.caller).value,
        reports=parts.reports.reports(),
        monitoring=parts.reports.monitoring(),
        anonymous=parts.anonymous.monitoring(now),
        leases=parts.leases.rows(),
        pause=parts.paused(),
        history=results.history(charts.range_or_default(flask.request.args.get("range"))).value,
        usage=results.usage(flask.g.caller).value,
        caller_has_token=flask.g.caller.is_known,
        job=_job(asked) if asked else None,
        can_report=any(row["kind"] == "site" for row in parts.tokens.rows()),
    )
    return flask.render_template("status.html", **page.template_variables(page_context))


@metrics.get("/metrics")
def prometheus() -> flask.Response:
    """Return the metrics for Prometheus."""
    return flask.Response(current_services().metrics.text(), mimetype="text/plain; version=0.0.4; charset=utf-8")
