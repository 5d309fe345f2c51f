# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Responses, each in the form that callers of the requested path can read."""

from __future__ import annotations

import gzip
from typing import Any

import flask

from . import replies, rpc
from .rpc import exceptions

FRESH = "private, no-cache"
"""Caches may keep the response and must ask each time whether it is still valid (ETag)."""
VARY = "Accept-Encoding, Authorization"
PLAIN = "text/plain; charset=utf-8"
RPC_PATH = "/jsonrpc"
WWW_AUTHENTICATE = 'Basic realm="glidein-demand: any user name, a token as the password", charset="UTF-8"'


def error(status: int, reason: str) -> flask.Response:
    """Return an error: a JSON-RPC one for JSON-RPC callers, one plain line for all others."""
    if flask.request.path == RPC_PATH:
        return of_outcome(rpc.refusal(exceptions.InvalidRequestError(data=reason), status))
    return flask.Response(f"{status} {reason}\n", status=status, content_type=PLAIN)


def unauthorized(reason: str) -> flask.Response:
    """Return the error that makes a browser ask for a token."""
    response = error(401, reason)
    response.headers["WWW-Authenticate"] = WWW_AUTHENTICATE
    return response


def too_many(wait: int) -> flask.Response:
    """Return the error for a caller that exceeds the rate limit; `wait` is in seconds."""
    if flask.request.path == RPC_PATH:
        return of_outcome(rpc.too_many(wait))
    response = error(429, f"too many requests; try again in {wait} s")
    response.headers["Retry-After"] = str(wait)
    return response


def unavailable(reason: str) -> flask.Response:
    """Return the error for a request that needs the database while it cannot be used."""
    if flask.request.path == RPC_PATH:
        return of_outcome(rpc.refusal(rpc.UnavailableError(data=reason), 503))
    response = error(503, reason)
    response.headers["Retry-After"] = "5"
    return response


def of_outcome(outcome: rpc.Outcome) -> flask.Response:
    """Return the response to a JSON-RPC request."""
    if outcome.result is not None:
        return of_result(outcome.result, outcome.identity)
    response = of_json(outcome.body, outcome.status)
    response.headers.update(outcome.headers)
    return response


def of_result(result: replies.Result, identity: str | None = None) -> flask.Response:
    """Return a large result: 304 if the caller has it already, compressed if the caller can read that."""
    headers = {"ETag": result.etag, "Vary": VARY, "Cache-Control": FRESH}
    if flask.request.if_none_match.contains_weak(result.etag[3:-1]):
        return flask.Response(status=304, headers=headers)
    compress = flask.request.accept_encodings["gzip"] > 0
    if compress:
        headers["Content-Encoding"] = "gzip"
    return of_json(result.reply(identity, compress), 200, headers)


def of_json(body: bytes, status: int = 200, headers: dict[str, Any] | None = None) -> flask.Response:
    """Return a response whose body is JSON already."""
    return flask.Response(body, status=status, mimetype="application/json", headers=headers)


def compress(response: flask.Response) -> None:
    """Compress a page, or a file of it, if the caller can read that."""
    response.vary.add("Accept-Encoding")
    if not flask.request.accept_encodings["gzip"]:
        return
    response.direct_passthrough = False
    response.set_data(gzip.compress(response.get_data(), compresslevel=2, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _weak = response.get_etag()
    if etag is not None:
        response.set_etag(etag, weak=True)  # the same text, other bytes
