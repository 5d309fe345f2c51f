# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Responses, in the format of the requested path."""

from __future__ import annotations

import flask

from . import rpc

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
    return from_json(rpc_response.body, rpc_response.status, rpc_response.headers)


def from_json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> flask.Response:
    """Return a response with a JSON body."""
    return flask.Response(body, status=status, mimetype="application/json", headers=headers)
