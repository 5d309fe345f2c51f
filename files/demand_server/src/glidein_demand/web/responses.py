# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Responses, in the format of the requested path."""

from __future__ import annotations

import gzip
from typing import Any

import flask

from .. import result_cache
from . import rpc

FRESH = "private, no-cache"
"""Caches may store the response and must validate it for each request (ETag)."""
VARY = "Accept-Encoding, Authorization"
PLAIN = "text/plain; charset=utf-8"
RPC_PATH = "/jsonrpc"
WWW_AUTHENTICATE = 'Basic realm="glidein-demand: any user name, a token as the password", charset="UTF-8"'


def error(status: int, reason: str) -> flask.Response:
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
    response = error(401, reason)
    response.headers["WWW-Authenticate"] = WWW_AUTHENTICATE
    return response


def from_rpc(rpc_response: rpc.RpcResponse) -> flask.Response:
    """Return the response to a JSON-RPC request."""
    if rpc_response.result is not None:
        return from_result(rpc_response.result, rpc_response.identity)
    response = from_json(rpc_response.body, rpc_response.status)
    response.headers.update(rpc_response.headers)
    return response


def from_result(result: result_cache.JsonResult, identity: str | None = None) -> flask.Response:
    """Return a large result: 304 if the caller has the current one, compressed if the caller accepts gzip."""
    headers = {"ETag": result.etag, "Vary": VARY, "Cache-Control": FRESH}
    if flask.request.if_none_match.contains_weak(result.etag[3:-1]):
        return flask.Response(status=304, headers=headers)
    compress = flask.request.accept_encodings["gzip"] > 0
    if compress:
        headers["Content-Encoding"] = "gzip"
    return from_json(result.reply(identity, compress), 200, headers)


def from_json(body: bytes, status: int = 200, headers: dict[str, Any] | None = None) -> flask.Response:
    """Return a response with a JSON body."""
    return flask.Response(body, status=status, mimetype="application/json", headers=headers)


def compress(response: flask.Response) -> None:
    """Compress the response if the caller accepts gzip."""
    response.vary.add("Accept-Encoding")
    if not flask.request.accept_encodings["gzip"]:
        return
    response.direct_passthrough = False
    response.set_data(gzip.compress(response.get_data(), compresslevel=2, mtime=0))
    response.headers["Content-Encoding"] = "gzip"
    etag, _weak = response.get_etag()
    if etag is not None:
        response.set_etag(etag, weak=True)  # the same text in other bytes
