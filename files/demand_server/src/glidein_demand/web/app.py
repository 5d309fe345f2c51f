# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: the server of its settings, the routes, and what is common to all requests."""

from __future__ import annotations

import time
from typing import Callable

import flask
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from ..config import Settings
from ..server import Server
from ..values import MAX_BODY_BYTES, one_line
from . import auth, methods
from .routes import EXTENSION, RPC_PATH, current_server, error_response, routes, unauthorized

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC_SECONDS = 300
HEALTH = "routes.healthz"
STATIC = "static"


def create_app(settings: Settings, clock: Callable[[], float] = time.time) -> flask.Flask:
    """Return the application of a new Server, `app.extensions[EXTENSION]`, whose periodic work does not run yet.

    Raise ConfigError if the database cannot be used.
    """
    app = flask.Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = STATIC_SECONDS
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.extensions[EXTENSION] = Server(settings, clock)
    app.before_request(authenticate)
    app.before_request(require_token)
    app.after_request(add_headers)
    app.register_blueprint(routes)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(SQLAlchemyError, database_error)
    app.register_error_handler(Exception, internal_error)
    return app


def authenticate() -> None:
    """Set flask.g.caller."""
    try:
        flask.g.caller = auth.identify(flask.request.headers.get("Authorization"), current_server().tokens.identify)
    except SQLAlchemyError:
        if flask.request.endpoint != HEALTH:
            raise
        flask.g.caller = auth.ANONYMOUS  # the health names the database's failure


def require_token() -> flask.Response | None:
    """Refuse the request if its caller may not read. JSON-RPC methods make this check for each call."""
    caller, request = flask.g.caller, flask.request
    if request.endpoint == HEALTH or request.path == RPC_PATH or caller.is_known:
        return None
    if caller.kind == "anonymous" and current_server().settings.server.reading == "open":
        return None
    return unauthorized("a token is required" if caller.kind == "anonymous" else "the token is invalid")


def add_headers(response: flask.Response) -> flask.Response:
    """Add the security and caching headers."""
    response.headers.extend(HEADERS)
    if flask.request.endpoint != STATIC:
        response.headers["Cache-Control"] = "no-store"
    elif current_server().settings.server.reading == "token":
        response.headers["Cache-Control"] = f"private, max-age={STATIC_SECONDS}"
    return response


def http_error(error: HTTPException) -> flask.Response:
    """Return the error that Flask or Werkzeug raised: 405 with the path's methods, 413 with the limit, or another."""
    too_large = isinstance(error, RequestEntityTooLarge)
    reason = f"the request is larger than {MAX_BODY_BYTES} bytes" if too_large else error.name
    response = error_response(error.code or 500, reason)
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
    return response


def database_error(error: SQLAlchemyError) -> flask.Response:
    """Log the database's message, and return the error 503."""
    flask.current_app.logger.error("database: %s", one_line(error)[:300])
    return error_response(503, methods.NO_DATABASE)


def internal_error(_error: Exception) -> flask.Response:
    """Log the traceback, and return the error 500 without details."""
    flask.current_app.logger.exception("request failed: %s %s", flask.request.method, ascii(flask.request.path)[:200])
    return error_response(500, "Internal Server Error")
