# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blueprints: JSON-RPC, plain resources, the status page, and the metrics."""

from __future__ import annotations

import flask

from . import charts, page, replies, responses
from . import rpc as json_rpc
from .context import current
from .health import health
from .rpc import exceptions
from .shown import Shown

rpc = flask.Blueprint("rpc", __name__)
api = flask.Blueprint("api", __name__)
pages = flask.Blueprint("pages", __name__)
metrics = flask.Blueprint("metrics", __name__)


@rpc.post(responses.RPC_PATH)
def call() -> flask.Response:
    """Answer a JSON-RPC request or batch."""
    context = current()
    if not flask.request.is_json:
        error = exceptions.InvalidRequestError(data="the Content-Type must be application/json")
        return responses.of_outcome(json_rpc.refusal(error))
    return responses.of_outcome(
        json_rpc.handle(
            context.dispatcher,
            flask.request.get_data(),
            flask.g.caller,
            context.seconds_to_wait,
            context.metrics.called,
        )
    )


@api.get("/demand")
def demand() -> flask.Response:
    """Return the result of get_demand."""
    return responses.of_result(current().views.demand(flask.g.caller, None))


@api.get("/supply")
def supply() -> flask.Response:
    """Return the result of get_supply."""
    return responses.of_result(current().views.supply(flask.g.caller))


@api.get("/history")
def history() -> flask.Response:
    """Return what the page's charts show."""
    try:
        return responses.of_result(current().views.history(flask.request.args.get("range", charts.DEFAULT_RANGE)))
    except ValueError as error:
        return responses.error(400, str(error))


@api.get("/healthz")
def healthz() -> flask.Response:
    """Return whether the server knows the queue and can use its database; 503 if not."""
    parts = current().parts
    names = parts.settings.reading == "open" or flask.g.caller.is_known
    found = health(parts.pool_state.snapshot().results.about, parts.settings, parts.clock(), names)
    if parts.watch.problem:
        found["status"] = "no database"
    return responses.of_json(replies.dump(found), 200 if found["status"] == "ok" else 503)


@pages.get("/")
def status() -> str:
    """Return the status page."""
    context = current()
    parts, views = context.parts, context.views
    now = parts.clock()
    shown = Shown(
        settings=parts.settings,
        now=now,
        demand=parts.pool_state.snapshot().results.demand(),
        supply=views.supply(flask.g.caller).value,
        reports=parts.reports.reports(),
        monitoring=parts.reports.monitoring(),
        anonymous=parts.anonymous.monitoring(now),
        leases=parts.leases.rows(),
        pause=parts.paused(),
        history=views.history(charts.range_or_default(flask.request.args.get("range"))).value,
        caller_has_token=flask.g.caller.is_known,
        can_report=any(row["kind"] == "site" for row in parts.tokens.rows()),
    )
    return flask.render_template("status.html", **page.view(shown))


@metrics.get("/metrics")
def prometheus() -> flask.Response:
    """Return the metrics for Prometheus."""
    return flask.Response(current().metrics.text(), mimetype="text/plain; version=0.0.4; charset=utf-8")
