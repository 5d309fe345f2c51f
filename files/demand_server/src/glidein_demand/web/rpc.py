# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON-RPC 2.0 around pjrpc: bytes in, HTTP status and bytes out.

pjrpc finds the method, binds its parameters and makes the errors. It takes a batch as a whole, though: one bad element
or two equal ids refuse all of it, and a batch of notifications is answered with `[]`. The specification
(https://www.jsonrpc.org/specification, sections 4 to 7) wants an answer per element, so batches are taken apart here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Callable

import pjrpc.server
from pjrpc.server import exceptions

from .auth import Caller
from .replies import Result, dump

MAX_BATCH = 100
MAX_REPLY_BYTES = 32 * 1024 * 1024
"""A batch is answered until its reply is this long: more would be a cheap way to fill the server's memory."""
MAX_DIGITS = 1000
_OUR_ID = "request"


class UnauthorizedError(exceptions.TypedError):
    """The method needs a token, or the token given is wrong or another's."""

    CODE = -32001
    MESSAGE = "Unauthorized"


class FullUpError(exceptions.TypedError):
    """A limit of the server does not allow it."""

    CODE = -32002
    MESSAGE = "Limit reached"


class NotReadyError(exceptions.TypedError):
    """The server does not know enough yet."""

    CODE = -32003
    MESSAGE = "Not ready"


class TooManyError(exceptions.TypedError):
    """The caller asks too often."""

    CODE = -32004
    MESSAGE = "Too many requests"


class UnavailableError(exceptions.TypedError):
    """The server's database cannot be used at the moment."""

    CODE = -32005
    MESSAGE = "Temporarily unavailable"


class OtherDeploymentError(exceptions.TypedError):
    """The site belongs to another deployment."""

    CODE = -32006
    MESSAGE = "Used by another deployment"


STATUS = {
    TooManyError.CODE: 429,
    UnavailableError.CODE: 503,
    exceptions.InternalError.CODE: 500,
    exceptions.ServerError.CODE: 500,
}
"""HTTP status by error code; all others are 400, as PyGlidein's server has it."""


@dataclass(frozen=True)
class Outcome:
    """An HTTP answer: `body`, or, for a large result alone in its request, `result` with the request's id as JSON."""

    status: int
    body: bytes = b""
    result: Result | None = None
    identity: str = "null"
    headers: dict[str, str] = field(default_factory=dict)


NOTHING = Outcome(204)


def new_dispatcher() -> pjrpc.server.Dispatcher[Caller]:
    """A dispatcher for requests that are parsed already: what it loads and dumps are Python values."""
    return pjrpc.server.Dispatcher(
        json_loader=lambda value, cls=None: value,
        json_dumper=lambda value, cls=None: value,
    )


def handle(
    dispatcher: pjrpc.server.Dispatcher[Caller],
    body: bytes,
    caller: Caller,
    further: Callable[[int], int] = lambda calls: 0,
    called: Callable[[Any, bool], None] = lambda method, succeeded: None,
) -> Outcome:
    """Answer one HTTP body.

    `further` counts a batch's calls beyond its first, and gives the seconds to wait, or 0; `called` is told of each
    call its method and whether it succeeded.
    """
    try:
        request = parse(body)
    except ValueError as error:
        return refusal(exceptions.ParseError(data=str(error)))
    if not isinstance(request, list):
        return _outcome(answer(dispatcher, request, caller, called))
    if not request:
        return _outcome(invalid("the batch is empty"))
    if len(request) > MAX_BATCH:
        return _outcome(invalid(f"the batch has {len(request)} requests; at most {MAX_BATCH} are allowed"))
    wait = further(len(request) - 1) if len(request) > 1 else 0
    if wait:
        return too_many(wait)
    said: list[bytes] = []
    length = 0
    for element in request:
        if length > MAX_REPLY_BYTES:
            response = _error(
                FullUpError(data=f"the batch's reply has more than {MAX_REPLY_BYTES} bytes; ask in parts")
            )
            response["id"] = element.get("id") if isinstance(element, dict) else None
        else:
            response = answer(dispatcher, element, caller, called)
        if response is not None:
            said.append(_bytes(response))
            length += len(said[-1])
    return Outcome(200, b"[" + b",".join(said) + b"]") if said else NOTHING


def parse(body: bytes) -> Any:
    """The JSON value in `body`; ValueError says in one line why there is none."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _float(text: str) -> float:
    """A number with a fraction or an exponent; one that is too large for any reader would become infinite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def answer(
    dispatcher: pjrpc.server.Dispatcher[Caller],
    request: Any,
    caller: Caller,
    called: Callable[[Any, bool], None] = lambda method, succeeded: None,
) -> dict[str, Any] | None:
    """The response object to one request object; None for a notification. Its result may be a Result."""
    if not isinstance(request, dict):
        return invalid("a request must be an object")
    if request.get("jsonrpc") != "2.0":
        return invalid("jsonrpc is not 2.0")
    identity = request.get("id")
    if isinstance(identity, (bool, list, dict)):
        return invalid("id must be a string, a number or null")
    # pjrpc takes a null id for a notification and refuses fractions; the specification allows both as ids.
    known = {**request, "id": _OUR_ID} if "id" in request else request
    dispatched = dispatcher.dispatch(known, caller)  # type: ignore[arg-type]
    if dispatched is None:
        called(request.get("method"), True)
        return None
    response: Any = dispatched[0]
    called(request.get("method"), response.get("error") is None)
    response["id"] = identity if response["id"] == _OUR_ID else None
    return _readable(response)


def invalid(reason: str) -> dict[str, Any]:
    """Return the JSON-RPC error response for an invalid request."""
    return _error(exceptions.InvalidRequestError(data=reason))


def refusal(error: exceptions.JsonRpcError, status: int | None = None) -> Outcome:
    """Return the answer to a body of which no call was made."""
    outcome = _outcome(_error(error))
    return outcome if status is None else Outcome(status, outcome.body)


def too_many(wait: int) -> Outcome:
    """Return the answer to a caller that exceeds the rate limit; `wait` is in seconds."""
    body = dump(_error(TooManyError(data=f"more than server.max_requests_per_minute; try again in {wait} s")))
    return Outcome(429, body, headers={"Retry-After": str(wait)})


def _error(error: exceptions.JsonRpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": error.to_json(), "id": None}


def _readable(response: dict[str, Any]) -> dict[str, Any]:
    """PyGlidein's server says nothing more than "Method not found"; the other errors' data must be text."""
    error = response.get("error")
    if error is not None:
        if error["code"] == exceptions.MethodNotFoundError.CODE:
            error.pop("data", None)
        elif "data" in error:
            error["data"] = str(error["data"])
    return response


def _outcome(response: dict[str, Any] | None) -> Outcome:
    if response is None:
        return NOTHING
    error = response.get("error")
    if error is not None:
        status = STATUS.get(error["code"], 400)
        return Outcome(status, dump(response), headers={"Retry-After": "5"} if status == 503 else {})
    result = response["result"]
    if isinstance(result, Result):
        return Outcome(200, result=result, identity=_id(response["id"]))
    return Outcome(200, dump(response))


def _bytes(response: dict[str, Any]) -> bytes:
    result = response.get("result")
    return result.reply(_id(response["id"]), compress=False) if isinstance(result, Result) else dump(response)


def _id(identity: Any) -> str:
    return dump(identity).decode()


def _integer(digits: str) -> int:
    # Longer ones take quadratic time on Pythons without a limit of their own.
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_int=_integer, parse_float=_float)
