# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes: JSON-RPC, plain resources, the status page, and the metrics; and their responses."""

from __future__ import annotations

import flask

from .. import result_cache
from ..server import Server
from . import charts, methods, page, problems, results, rpc, usage
from . import metrics as metrics_

EXTENSION = "glidein_demand"
"""The key of the Server in `app.extensions`."""

PLAIN = "text/plain; charset=utf-8"
RPC_PATH = "/jsonrpc"
WWW_AUTHENTICATE = 'Basic realm="glidein-demand: any user name, a token as the password", charset="UTF-8"'

routes = flask.Blueprint("routes", __name__)


def current_server() -> Server:
    """Return the server of the current Flask application."""
    server: Server = flask.current_app.extensions[EXTENSION]
    return server


def error_response(status: int, reason: str) -> flask.Response:
    """Return an error: a JSON-RPC error on the JSON-RPC path, one line of plain text elsewhere.

    status: 503 means that the database is unavailable, and asks the caller to try again.
    """
    if flask.request.path == RPC_PATH:
        kind = rpc.UNAVAILABLE if status == 503 else rpc.INVALID_REQUEST
        return from_rpc(rpc.error_response(rpc.RpcError(kind, reason), status))
    headers = {"Retry-After": str(rpc.RETRY_S)} if status == 503 else {}
    return flask.Response(f"{status} {reason}\n", status=status, headers=headers, content_type=PLAIN)


def unauthorized(reason: str) -> flask.Response:
    """Return the error 401, on which a browser prompts for a token."""
    response = error_response(401, reason)
    response.headers["WWW-Authenticate"] = WWW_AUTHENTICATE
    return response


def from_rpc(rpc_response: rpc.RpcResponse) -> flask.Response:
    """Return the response to a JSON-RPC request."""
    return from_json(rpc_response.body, rpc_response.status, rpc_response.headers)


def from_json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> flask.Response:
    """Return a response with a JSON body."""
    return flask.Response(body, status=status, mimetype="application/json", headers=headers)


@routes.post(RPC_PATH)
def call() -> flask.Response:
    """Answer a JSON-RPC request or batch."""
    if not flask.request.is_json:
        return error_response(400, "the Content-Type must be application/json")
    server, caller = current_server(), flask.g.caller
    body = flask.request.get_data()
    return from_rpc(rpc.handle(body, lambda method, params: methods.call(server, caller, method, params)))


@routes.get("/demand")
def demand() -> flask.Response:
    """Return the result of get_demand."""
    return from_json(results.demand(current_server(), flask.g.caller, None).body)


@routes.get("/supply")
def supply() -> flask.Response:
    """Return the result of get_supply."""
    return from_json(results.supply(current_server(), flask.g.caller.is_known).body)


@routes.get("/history")
def history() -> flask.Response:
    """Return the history for the page's charts."""
    try:
        found = results.history(current_server(), flask.request.args.get("range", charts.DEFAULT_RANGE))
    except ValueError as error:
        return error_response(400, str(error))
    return from_json(found.body)


@routes.get("/usage")
def core_hours() -> flask.Response:
    """Return core-hours by month or day, or usage records of them, as JSON or CSV."""
    server = current_server()
    now = server.clock()
    try:
        wanted = usage.parse(flask.request.args, now, flask.g.caller.is_known)
    except ValueError as error:
        return error_response(400, str(error))
    except usage.UsersHiddenError as error:
        return unauthorized(str(error))
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
    return from_json(result_cache.dump(reply))


@routes.get("/healthz")
def healthz() -> flask.Response:
    """Return the health of the server, with HTTP status 503 if the demand is stale or the database fails."""
    server = current_server()
    state = problems.health(server.pool_state.snapshot().results.about, server.settings, server.clock())
    if server.settings.server.reading == "token" and not flask.g.caller.is_known:
        del state["failed"]
    if server.database.problem():
        state["status"] = "no database"
    return from_json(result_cache.dump(state), 200 if state["status"] == "ok" else 503)


@routes.get("/")
def status() -> str | flask.Response:
    """Return the status page."""
    arguments, caller = flask.request.args, flask.g.caller
    asked = arguments.get("job", "").strip()
    if asked and not caller.is_known:
        return unauthorized("reading a job requires a token")
    data = results.page(current_server(), caller, arguments.get("range"), asked)
    return flask.render_template("status.html", **page.template_variables(data))


@routes.get("/metrics")
def metrics() -> flask.Response:
    """Return the metrics for Prometheus."""
    return flask.Response(metrics_.text(current_server()), mimetype="text/plain; version=0.0.4; charset=utf-8")
