# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: routes, who may enter, and headers; nothing else."""

from __future__ import annotations

import gzip
from typing import Any

import flask
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from ..app_state import AppState as Parts
from . import auth, charts, limits, methods, page, replies, rpc
from .direct import DirectState
from .health import health
from .metrics import Metrics
from .rpc import exceptions
from .shown import Shown
from .views import Views
from .wsgi import COUNTED, LATE

COMPRESSED = ("text/html", "text/css", "text/javascript", "image/svg+xml")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FRESH = "private, no-cache"
"""Caches may keep it and must ask each time whether it is still so (ETag)."""
VARY = "Accept-Encoding, Authorization"
STATIC_SECONDS = 300
UNLIMITED = ("healthz", "static")
WWW_AUTHENTICATE = 'Basic realm="glidein-demand: any user name, a token as the password", charset="UTF-8"'
PLAIN = "text/plain; charset=utf-8"


def create_app(parts: Parts, views: Views) -> flask.Flask:
    """The application over `parts`, whose large results come from `views`."""
    app = flask.Flask(__name__)
    settings = parts.settings
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = STATIC_SECONDS
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    metrics = Metrics(parts)
    rate = limits.RateLimit(settings.max_requests_per_minute)
    dispatcher = rpc.new_dispatcher()
    dispatcher.add_methods(methods.registry(parts, views))

    result_headers = {**HEADERS, "Content-Type": "application/json", "Vary": VARY, "Cache-Control": FRESH}
    app.wsgi_app = DirectState(app.wsgi_app, parts, views, rate, metrics, result_headers)  # type: ignore[method-assign]

    @app.before_request
    def enter() -> flask.Response | None:
        request = flask.request
        if request.environ.get(LATE):
            return _refused(408, "the request did not arrive in time")
        flask.g.caller = caller = auth.identify(request.headers.get("Authorization"), parts.tokens.identify)
        if request.endpoint == "healthz":
            return None
        flask.g.who = limits.who(caller, request.remote_addr or "")
        if request.endpoint not in UNLIMITED and not request.environ.get(COUNTED):
            request.environ[COUNTED] = True
            wait = rate.hit(flask.g.who)
            if wait:
                metrics.limited()
                return _too_many(wait)
        # JSON-RPC tells each call of a batch for itself.
        if request.path == "/jsonrpc" or caller.is_known or (settings.reading == "open" and caller.kind == "anonymous"):
            return None
        response = _refused(401, "a token is needed" if caller.kind == "anonymous" else "this token is not known")
        response.headers["WWW-Authenticate"] = WWW_AUTHENTICATE
        return response

    def further(calls: int) -> int:
        wait = rate.hit(flask.g.who, calls)
        if wait:
            metrics.limited()
        return wait

    @app.post("/jsonrpc")
    def jsonrpc() -> flask.Response:
        if not flask.request.is_json:
            return _outcome(rpc.refusal(_invalid("the Content-Type must be application/json")))
        return _outcome(rpc.handle(dispatcher, flask.request.get_data(), flask.g.caller, further, metrics.called))

    @app.get("/demand")
    def demand() -> flask.Response:
        return _result(views.demand(flask.g.caller, None), None)

    @app.get("/supply")
    def supply() -> flask.Response:
        return _result(views.supply(flask.g.caller), None)

    @app.get("/")
    def status_page() -> str:
        wanted = charts.range_or_default(flask.request.args.get("range"))
        now = parts.clock()
        shown = Shown(
            settings=settings,
            now=now,
            demand=parts.readings.snapshot().answers.demand(),
            supply=views.supply(flask.g.caller).value,
            reports=parts.reports.reports(),
            monitoring=parts.reports.monitoring(),
            anonymous=parts.anonymous.monitoring(now),
            leases=parts.leases.rows(),
            pause=parts.paused(),
            history=views.history(wanted).value,
            caller_has_token=flask.g.caller.is_known,
            can_report=any(row["kind"] == "site" for row in parts.tokens.rows()),
        )
        return flask.render_template("status.html", **page.view(shown))

    @app.get("/history")
    def history() -> flask.Response:
        wanted = flask.request.args.get("range", charts.DEFAULT_RANGE)
        try:
            return _result(views.history(wanted), None)
        except ValueError as error:
            return _refused(400, str(error))

    @app.get("/healthz")
    def healthz() -> flask.Response:
        names = settings.reading == "open" or flask.g.caller.is_known
        found = health(parts.readings.snapshot().answers.about, settings, parts.clock(), names)
        if parts.watch.problem:
            found["status"] = "no database"
        return _json(replies.dump(found), 200 if found["status"] == "ok" else 503)

    @app.get("/metrics")
    def prometheus() -> flask.Response:
        return flask.Response(metrics.text(), mimetype="text/plain; version=0.0.4; charset=utf-8")

    @app.errorhandler(Exception)
    def failed(error: Exception) -> flask.Response:
        """One plain line, or a JSON-RPC error, instead of a page of the framework; the log has the rest."""
        if isinstance(error, RequestEntityTooLarge):
            return _refused(413, f"the request is larger than {settings.max_body_bytes} bytes (server.max_body_bytes)")
        if isinstance(error, HTTPException):
            response = _refused(error.code or 500, error.name)
            if error.code == 405:
                response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))  # type: ignore[attr-defined]
            if error.code == 308:
                response.headers["Location"] = "/"
            return response
        if isinstance(error, SQLAlchemyError):
            app.logger.error("database: %s", " ".join(str(error).split())[:300])
            reason = methods.NO_DATABASE
            if flask.request.path == "/jsonrpc":
                return _outcome(rpc.refusal(rpc.UnavailableError(data=reason), 503))
            response = _refused(503, reason)
            response.headers["Retry-After"] = "5"
            return response
        app.logger.exception("request failed: %s %s", flask.request.method, ascii(flask.request.path)[:200])
        return _refused(500, "Internal Server Error")

    @app.after_request
    def with_headers(response: flask.Response) -> flask.Response:
        response.headers.extend(HEADERS)
        response.headers.pop("Date", None)  # the HTTP server adds it
        if response.status_code == 200 and response.mimetype in COMPRESSED:
            _compress(response)
        if flask.request.endpoint != "static":
            response.headers.setdefault("Cache-Control", "no-store")
        elif settings.reading == "token":
            response.headers["Cache-Control"] = f"private, max-age={STATIC_SECONDS}"
        return response

    return app


def _compress(response: flask.Response) -> None:
    """Compress the page and what belongs to it, for who can read that: with many sites it is twenty times smaller."""
    response.vary.add("Accept-Encoding")
    if not flask.request.accept_encodings["gzip"]:
        return
    response.direct_passthrough = False
    response.set_data(gzip.compress(response.get_data(), compresslevel=2, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _weak = response.get_etag()
    if etag is not None:
        response.set_etag(etag, weak=True)  # the same text, other bytes


def _refused(status: int, reason: str) -> flask.Response:
    """An error, in the form that callers of this address can read."""
    if flask.request.path == "/jsonrpc":
        return _outcome(rpc.refusal(_invalid(reason), status))
    return flask.Response(f"{status} {reason}\n", status=status, content_type=PLAIN)


def _too_many(wait: int) -> flask.Response:
    if flask.request.path == "/jsonrpc":
        return _outcome(rpc.too_many(wait))
    response = _refused(429, f"too many requests; try again in {wait} s")
    response.headers["Retry-After"] = str(wait)
    return response


def _invalid(reason: str) -> exceptions.JsonRpcError:
    return exceptions.InvalidRequestError(data=reason)


def _outcome(outcome: rpc.Outcome) -> flask.Response:
    if outcome.result is not None:
        return _result(outcome.result, outcome.identity)
    response = _json(outcome.body, outcome.status)
    response.headers.update(outcome.headers)
    return response


def _result(result: replies.Result, identity: str | None) -> flask.Response:
    """A large result: not sent to who has it already, compressed for who can read that."""
    headers = {"ETag": result.etag, "Vary": VARY, "Cache-Control": FRESH}
    if flask.request.if_none_match.contains_weak(result.etag[3:-1]):
        return flask.Response(status=304, headers=headers)
    compress = flask.request.accept_encodings["gzip"] > 0
    if compress:
        headers["Content-Encoding"] = "gzip"
    return _json(result.reply(identity, compress), 200, headers)


def _json(body: bytes, status: int, headers: dict[str, Any] | None = None) -> flask.Response:
    return flask.Response(body, status=status, mimetype="application/json", headers=headers)
