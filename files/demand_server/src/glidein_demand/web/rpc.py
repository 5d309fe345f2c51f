# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification): parse a request body, answer its calls, return the response.

As in PyGlidein's server, an error of a single call also has an HTTP status, and "Method not found" has no data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

import msgspec

from ..result_cache import JsonResult, dump

MAX_BATCH = 100
MAX_REPLY_BYTES = 32 * 1024 * 1024
"""The longest response to a batch. The limit protects the server's memory."""


class ErrorKind(NamedTuple):
    """An error's code and message, and its HTTP status unless the call is in a batch."""

    code: int
    message: str
    status: int = 400


PARSE_ERROR = ErrorKind(-32700, "Parse error")
INVALID_REQUEST = ErrorKind(-32600, "Invalid Request")
METHOD_NOT_FOUND = ErrorKind(-32601, "Method not found")
INVALID_PARAMS = ErrorKind(-32602, "Invalid params")
INTERNAL_ERROR = ErrorKind(-32603, "Internal error", 500)
UNAUTHORIZED = ErrorKind(-32001, "Unauthorized")
LIMIT_REACHED = ErrorKind(-32002, "Limit reached")
NOT_READY = ErrorKind(-32003, "Not ready")
UNAVAILABLE = ErrorKind(-32005, "Temporarily unavailable", 503)
OTHER_DEPLOYMENT = ErrorKind(-32006, "Used by another deployment")

RETRY_S = 5
"""The header Retry-After of an UNAVAILABLE error."""

Call = Callable[[str, Any], Any]
"""Returns the result of a method, given its name and `params`, a list or a dict. Raises RpcError."""


class RpcError(Exception):
    """A call failed. `data` is one line that describes the cause."""

    def __init__(self, kind: ErrorKind, data: str = "") -> None:
        super().__init__(data)
        self.kind = kind
        self.data = data


@dataclass(frozen=True)
class RpcResponse:
    """The HTTP status and content of a JSON-RPC response."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


NO_CONTENT = RpcResponse(204)


def handle(body: bytes, call: Call) -> RpcResponse:
    """Return the response to one HTTP body."""
    try:
        request = parse(body)
        if not isinstance(request, list):
            return _single(request, call)
        if not request:
            raise RpcError(INVALID_REQUEST, "the batch is empty")
        if len(request) > MAX_BATCH:
            raise RpcError(INVALID_REQUEST, f"the batch has {len(request)} requests; at most {MAX_BATCH} are allowed")
    except RpcError as error:
        return error_response(error)
    responses: list[bytes] = []
    length = 0
    for element in request:
        response = _answer(element, call if length <= MAX_REPLY_BYTES else _refuse_long_reply)
        if response is not None:
            responses.append(_bytes(response))
            length += len(responses[-1])
    return RpcResponse(200, b"[" + b",".join(responses) + b"]") if responses else NO_CONTENT


def parse(body: bytes) -> Any:
    """Return the JSON value in `body`. Raise RpcError if it is invalid."""
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise RpcError(PARSE_ERROR, "not UTF-8") from error
    except RecursionError as error:
        raise RpcError(PARSE_ERROR, "nested too deeply") from error
    except msgspec.DecodeError as error:  # also for integers of more than 4300 digits, and infinite numbers
        raise RpcError(PARSE_ERROR, str(error)) from error


def error_response(error: RpcError, status: int | None = None, identity: Any = None) -> RpcResponse:
    """Return an error response. status: instead of that of the error's kind; identity: None if no method was called."""
    headers = {"Retry-After": str(RETRY_S)} if error.kind is UNAVAILABLE else {}
    return RpcResponse(status or error.kind.status, _bytes(_Response(identity, error=error)), headers=headers)


class _Response(NamedTuple):
    """The result or the error of a call, and the request's id."""

    identity: Any
    result: Any = None
    error: RpcError | None = None


def _answer(request: Any, call: Call) -> _Response | None:
    """Return the response to one request, or None for a notification."""
    reason = _invalid(request)
    if reason:
        return _Response(None, error=RpcError(INVALID_REQUEST, reason))
    identity = request.get("id")
    try:
        response = _Response(identity, call(request["method"], request.get("params", {})))
    except RpcError as error:
        response = _Response(identity, error=error)
    return response if "id" in request else None


def _invalid(request: Any) -> str:
    """Return why a JSON value is not a request, or ""."""
    if not isinstance(request, dict):
        return "a request must be an object"
    if request.get("jsonrpc") != "2.0":
        return "jsonrpc is not 2.0"
    if isinstance(request.get("id"), (bool, list, dict)):
        return "id must be a string, a number or null"
    if not isinstance(request.get("method"), str):
        return "method must be a string"
    if not isinstance(request.get("params", {}), (list, dict)):
        return "params must be an object or an array"
    return ""


def _refuse_long_reply(_method: str, _params: Any) -> Any:
    raise RpcError(LIMIT_REACHED, f"the batch's reply has more than {MAX_REPLY_BYTES} bytes; send smaller batches")


def _single(request: Any, call: Call) -> RpcResponse:
    response = _answer(request, call)
    if response is None:
        return NO_CONTENT
    if response.error is not None:
        return error_response(response.error, identity=response.identity)
    return RpcResponse(200, _bytes(response))


def _bytes(response: _Response) -> bytes:
    identity, result, error = response
    if isinstance(result, JsonResult):
        return result.reply(dump(identity))
    if error is None:
        return dump({"jsonrpc": "2.0", "result": result, "id": identity})
    described = {"code": error.kind.code, "message": error.kind.message, **({"data": error.data} if error.data else {})}
    return dump({"jsonrpc": "2.0", "error": described, "id": identity})
