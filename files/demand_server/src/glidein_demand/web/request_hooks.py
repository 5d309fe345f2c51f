# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hooks of every request: authentication, authorization and response headers."""

from __future__ import annotations

import flask

from . import auth, responses
from .current import current_server

COMPRESSED = ("text/html", "text/css", "text/javascript", "image/svg+xml")
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
HEALTH = "api.healthz"
STATIC = "static"


def authenticate() -> None:
    """Set flask.g.caller."""
    flask.g.caller = auth.identify(flask.request.headers.get("Authorization"), current_server().tokens.identify)


def require_token() -> flask.Response | None:
    """Refuse the request if its caller may not read. JSON-RPC methods make this check for each call."""
    caller, request = flask.g.caller, flask.request
    if request.endpoint == HEALTH or request.path == responses.RPC_PATH or caller.is_known:
        return None
    if caller.kind == "anonymous" and current_server().settings.server.reading == "open":
        return None
    return responses.unauthorized("a token is required" if caller.kind == "anonymous" else "the token is invalid")


def add_headers(response: flask.Response) -> flask.Response:
    """Add the security and caching headers, and compress pages."""
    response.headers.extend(HEADERS)
    if response.status_code == 200 and response.mimetype in COMPRESSED:
        responses.compress(response)
    if flask.request.endpoint != STATIC:
        response.headers.setdefault("Cache-Control", "no-store")
    elif current_server().settings.server.reading == "token":
        response.headers["Cache-Control"] = f"private, max-age={STATIC_SECONDS}"
    return response
