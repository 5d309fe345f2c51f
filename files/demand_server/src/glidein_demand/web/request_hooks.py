# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hooks of every request: authentication, rate limit, authorization and response headers."""

from __future__ import annotations

import flask

from ..rate_limit import rate_limit_key
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
    """Set flask.g.caller and flask.g.rate_limit_key."""
    request = flask.request
    flask.g.caller = auth.identify(request.headers.get("Authorization"), current_server().tokens.identify)
    flask.g.rate_limit_key = rate_limit_key(flask.g.caller.name, request.remote_addr or "")


def seconds_to_wait(calls: int = 1) -> int:
    """Count calls of the current request's caller; return 0 if they are allowed, else the seconds until a retry."""
    return current_server().rate.hit(flask.g.rate_limit_key, calls)


def limit_rate() -> flask.Response | None:
    """Refuse the request if its caller exceeds server.max_requests_per_minute."""
    if flask.request.endpoint in (HEALTH, STATIC):
        return None
    wait = seconds_to_wait()
    return responses.too_many(wait) if wait else None


def require_token() -> flask.Response | None:
    """Refuse the request if its caller may not read. JSON-RPC methods make this check for each call."""
    caller, request = flask.g.caller, flask.request
    if request.endpoint == HEALTH or request.path == responses.RPC_PATH or caller.is_known:
        return None
    if caller.kind == "anonymous" and current_server().settings.reading == "open":
        return None
    return responses.unauthorized("a token is required" if caller.kind == "anonymous" else "the token is invalid")


def add_headers(response: flask.Response) -> flask.Response:
    """Add the security and caching headers, and compress pages."""
    response.headers.extend(HEADERS)
    if response.status_code == 200 and response.mimetype in COMPRESSED:
        responses.compress(response)
    if flask.request.endpoint != STATIC:
        response.headers.setdefault("Cache-Control", "no-store")
    elif current_server().settings.reading == "token":
        response.headers["Cache-Control"] = f"private, max-age={STATIC_SECONDS}"
    return response
