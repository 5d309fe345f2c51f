# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes: JSON-RPC, plain resources, the status page, and the metrics."""

from __future__ import annotations

import flask

from .. import result_cache
from ..server import Server
from . import charts, methods, page, problems, responses, results, rpc, usage
from . import metrics as metrics_

EXTENSION = "glidein_demand"
"""The key of the Server in `app.extensions`."""

routes = flask.Blueprint("routes", __name__)


def current_server() -> Server:
    """Return the server of the current Flask application."""
    server: Server = flask.current_app.extensions[EXTENSION]
    return server


@routes.post(responses.RPC_PATH)
def call() -> flask.Response:
    """Answer a JSON-RPC request or batch."""
    if not flask.request.is_json:
        return responses.error(400, "the Content-Type must be application/json")
    server, caller = current_server(), flask.g.caller
    body = flask.request.get_data()
    return responses.from_rpc(rpc.handle(body, lambda method, params: methods.call(server, caller, method, params)))


@routes.get("/demand")
def demand() -> flask.Response:
    """Return the result of get_demand."""
    return responses.from_json(results.demand(current_server(), flask.g.caller, None).body)


@routes.get("/supply")
def supply() -> flask.Response:
    """Return the result of get_supply."""
    return responses.from_json(results.supply(current_server(), flask.g.caller).body)


@routes.get("/history")
def history() -> flask.Response:
    """Return the history for the page's charts."""
    try:
        found = results.history(current_server(), flask.request.args.get("range", charts.DEFAULT_RANGE))
    except ValueError as error:
        return responses.error(400, str(error))
    return responses.from_json(found.body)


@routes.get("/usage")
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


@routes.get("/healthz")
def healthz() -> flask.Response:
    """Return the health of the server, with HTTP status 503 if the demand is stale or the database fails."""
    server = current_server()
    state = problems.health(server.pool_state.snapshot().results.about, server.settings, server.clock())
    if server.settings.server.reading == "token" and not flask.g.caller.is_known:
        del state["failed"]
    if server.database.problem():
        state["status"] = "no database"
    return responses.from_json(result_cache.dump(state), 200 if state["status"] == "ok" else 503)


@routes.get("/")
def status() -> str | flask.Response:
    """Return the status page."""
    arguments, caller = flask.request.args, flask.g.caller
    asked = arguments.get("job", "").strip()
    if asked and not caller.is_known:
        return responses.unauthorized("reading a job requires a token")
    data = results.page(current_server(), caller, arguments.get("range"), asked)
    return flask.render_template("status.html", **page.template_variables(data))


@routes.get("/metrics")
def metrics() -> flask.Response:
    """Return the metrics for Prometheus."""
    return flask.Response(metrics_.text(current_server()), mimetype="text/plain; version=0.0.4; charset=utf-8")
