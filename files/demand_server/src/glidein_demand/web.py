# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: routes and headers, nothing else."""

from __future__ import annotations

import json
import time
from typing import Callable

import flask
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from . import page, rpc
from .auth import identify
from .config import Settings
from .methods import registry
from .state import State

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def create_app(state: State, settings: Settings, token: str, clock: Callable[[], float] = time.time) -> flask.Flask:
    """The application over `state`. `token` is "" when there is none; `clock` gives epoch seconds."""
    app = flask.Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    dispatcher = rpc.new_dispatcher()
    dispatcher.add_methods(registry(state, settings, clock))

    @app.post("/jsonrpc")
    def jsonrpc() -> flask.Response:
        if not flask.request.is_json:
            return _json(json.dumps(rpc.invalid("the Content-Type must be application/json")).encode(), 400)
        caller = identify(flask.request.headers.get("Authorization"), token)
        try:
            body = flask.request.get_data()
        except RequestEntityTooLarge:
            limit = f"the request is larger than {settings.max_body_bytes} bytes (server.max_body_bytes)"
            return _json(json.dumps(rpc.invalid(limit)).encode(), 413)
        status, answer = rpc.handle(dispatcher, body, caller)
        return _json(answer, status)

    @app.get("/")
    def status_page() -> str:
        shown = page.view(state.snapshot(), settings, clock(), bool(token))
        return flask.render_template("status.html", **shown)

    @app.get("/healthz")
    def healthz() -> flask.Response:
        found = page.health(state.snapshot(), settings, clock())
        return _json(json.dumps(found).encode(), 200 if found["status"] == "ok" else 503)

    @app.errorhandler(Exception)
    def failed(error: Exception) -> flask.Response:
        """One plain line instead of a page of the framework; the log has the rest."""
        if isinstance(error, HTTPException):
            code = error.code or 500
            text = f"{code} {error.name}\n"
        else:
            app.logger.exception("request failed: %s %s", flask.request.method, flask.request.path)
            code, text = 500, "500 Internal Server Error\n"
        response = flask.Response(text, status=code, mimetype="text/plain")
        if code == 405 and isinstance(error, HTTPException):
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))  # type: ignore[attr-defined]
        return response

    @app.after_request
    def with_headers(response: flask.Response) -> flask.Response:
        response.headers.update(HEADERS)
        return response

    return app


def _json(body: bytes, status: int) -> flask.Response:
    return flask.Response(body, status=status, mimetype="application/json")
