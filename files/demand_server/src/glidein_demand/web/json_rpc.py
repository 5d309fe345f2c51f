# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON-RPC 2.0 on top of pjrpc: parse a request body, call the methods, and return HTTP status and body.

pjrpc finds the method, binds its parameters and creates the errors. It processes a batch as a whole: one invalid
element or two equal ids refuse the batch, and a batch of notifications returns `[]`. The specification
(https://www.jsonrpc.org/specification, sections 4 to 7) requires a response per element, so this module splits batches.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Callable

import pjrpc.server
from pjrpc.server import exceptions

from .auth import Caller
from .result_cache import JsonResult, dump

MAX_BATCH = 100
MAX_REPLY_BYTES = 32 * 1024 * 1024
"""The longest response to a batch. The limit protects the server's memory."""
MAX_DIGITS = 1000
_PLACEHOLDER_ID = "request"


class UnauthorizedError(exceptions.TypedError):
    """The method needs a token, or the token is invalid or belongs to another site."""

    CODE = -32001
    MESSAGE = "Unauthorized"


class LimitReachedError(exceptions.TypedError):
    """A limit of the server refuses the call."""

    CODE = -32002
    MESSAGE = "Limit reached"


class NotReadyError(exceptions.TypedError):
    """The server has not read the data that the call needs."""

    CODE = -32003
    MESSAGE = "Not ready"


class TooManyRequestsError(exceptions.TypedError):
    """The caller exceeds the rate limit."""

    CODE = -32004
    MESSAGE = "Too many requests"


class UnavailableError(exceptions.TypedError):
    """The server's database is temporarily unavailable."""

    CODE = -32005
    MESSAGE = "Temporarily unavailable"


class OtherDeploymentError(exceptions.TypedError):
    """The site belongs to another deployment."""

    CODE = -32006
    MESSAGE = "Used by another deployment"


STATUS = {
    TooManyRequestsError.CODE: 429,
    UnavailableError.CODE: 503,
    exceptions.InternalError.CODE: 500,
    exceptions.ServerError.CODE: 500,
}
"""HTTP status by error code; all other errors are 400, as in PyGlidein's server."""


@dataclass(frozen=True)
class RpcResponse:
    """The HTTP status and content of a JSON-RPC response.

    The content is `body`. A large result of a single request is in `result` instead, with the id as JSON in `identity`.
    """

    status: int
    body: bytes = b""
    result: JsonResult | None = None
    identity: str = "null"
    headers: dict[str, str] = field(default_factory=dict)


NO_CONTENT = RpcResponse(204)


def new_dispatcher() -> pjrpc.server.Dispatcher[Caller]:
    """Return a dispatcher for parsed requests: it loads and dumps Python values."""
    return pjrpc.server.Dispatcher(
        json_loader=lambda value, cls=None: value,
        json_dumper=lambda value, cls=None: value,
    )


def handle(
    dispatcher: pjrpc.server.Dispatcher[Caller],
    body: bytes,
    caller: Caller,
    count_calls: Callable[[int], int] = lambda calls: 0,
    record_call: Callable[[Any, bool], None] = lambda method, succeeded: None,
) -> RpcResponse:
    """Return the response to one HTTP body.

    count_calls: counts the calls of a batch after the first, and returns the seconds to wait, or 0. record_call: is
    called after each call with its method and True if it succeeded.
    """
    try:
        request = parse(body)
    except ValueError as error:
        return error_response(exceptions.ParseError(data=str(error)))
    if not isinstance(request, list):
        return _rpc_response(call_method(dispatcher, request, caller, record_call))
    if not request:
        return _rpc_response(invalid_request("the batch is empty"))
    if len(request) > MAX_BATCH:
        return _rpc_response(invalid_request(f"the batch has {len(request)} requests; at most {MAX_BATCH} are allowed"))
    wait = count_calls(len(request) - 1) if len(request) > 1 else 0
    if wait:
        return too_many(wait)
    responses: list[bytes] = []
    length = 0
    response: dict[str, Any] | None
    for element in request:
        if length > MAX_REPLY_BYTES:
            response = _error(
                LimitReachedError(data=f"the batch's reply has more than {MAX_REPLY_BYTES} bytes; send smaller batches")
            )
            response["id"] = element.get("id") if isinstance(element, dict) else None
        else:
            response = call_method(dispatcher, element, caller, record_call)
        if response is not None:
            responses.append(_bytes(response))
            length += len(responses[-1])
    return RpcResponse(200, b"[" + b",".join(responses) + b"]") if responses else NO_CONTENT


def parse(body: bytes) -> Any:
    """Return the JSON value in `body`. Raise ValueError, with a text of one line, if it is invalid."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _float(text: str) -> float:
    """Parse a number with a fraction or an exponent. Raise ValueError if it would become infinite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def call_method(
    dispatcher: pjrpc.server.Dispatcher[Caller],
    request: Any,
    caller: Caller,
    record_call: Callable[[Any, bool], None] = lambda method, succeeded: None,
) -> dict[str, Any] | None:
    """Return the response object to one request object, or None for a notification. Its result may be a JsonResult."""
    if not isinstance(request, dict):
        return invalid_request("a request must be an object")
    if request.get("jsonrpc") != "2.0":
        return invalid_request("jsonrpc is not 2.0")
    identity = request.get("id")
    if isinstance(identity, (bool, list, dict)):
        return invalid_request("id must be a string, a number or null")
    # pjrpc treats a null id as a notification and refuses fractions; the specification allows both as ids.
    prepared = {**request, "id": _PLACEHOLDER_ID} if "id" in request else request
    # json_loader returns the parsed request as it is. pjrpc annotates the argument as text.
    dispatched = dispatcher.dispatch(prepared, caller)  # type: ignore[arg-type]
    if dispatched is None:
        record_call(request.get("method"), True)
        return None
    response: Any = dispatched[0]
    record_call(request.get("method"), response.get("error") is None)
    response["id"] = identity if response["id"] == _PLACEHOLDER_ID else None
    return _normalize_error(response)


def invalid_request(reason: str) -> dict[str, Any]:
    """Return the JSON-RPC error response for an invalid request."""
    return _error(exceptions.InvalidRequestError(data=reason))


def error_response(error: exceptions.JsonRpcError, status: int | None = None) -> RpcResponse:
    """Return the error response to a body that calls no method."""
    response = _rpc_response(_error(error))
    return response if status is None else RpcResponse(status, response.body)


def too_many(wait: int) -> RpcResponse:
    """Return the error response for a caller that exceeds the rate limit; `wait` is in seconds."""
    body = dump(_error(TooManyRequestsError(data=f"more than server.max_requests_per_minute; try again in {wait} s")))
    return RpcResponse(429, body, headers={"Retry-After": str(wait)})


def _error(error: exceptions.JsonRpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": error.to_json(), "id": None}


def _normalize_error(response: dict[str, Any]) -> dict[str, Any]:
    """Convert an error's data to text. "Method not found" has no data, as in PyGlidein's server."""
    error = response.get("error")
    if error is not None:
        if error["code"] == exceptions.MethodNotFoundError.CODE:
            error.pop("data", None)
        elif "data" in error:
            error["data"] = str(error["data"])
    return response


def _rpc_response(response: dict[str, Any] | None) -> RpcResponse:
    if response is None:
        return NO_CONTENT
    error = response.get("error")
    if error is not None:
        status = STATUS.get(error["code"], 400)
        return RpcResponse(status, dump(response), headers={"Retry-After": "5"} if status == 503 else {})
    result = response["result"]
    if isinstance(result, JsonResult):
        return RpcResponse(200, result=result, identity=_id(response["id"]))
    return RpcResponse(200, dump(response))


def _bytes(response: dict[str, Any]) -> bytes:
    result = response.get("result")
    return result.reply(_id(response["id"]), compress=False) if isinstance(result, JsonResult) else dump(response)


def _id(identity: Any) -> str:
    return dump(identity).decode()


def _integer(digits: str) -> int:
    # Parsing takes quadratic time, and older Pythons have no limit.
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_int=_integer, parse_float=_float)
