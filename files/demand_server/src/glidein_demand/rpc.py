# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON-RPC 2.0 around pjrpc: bytes in, HTTP status and bytes out.

pjrpc finds the method, binds its parameters and makes the errors. It takes a batch as a whole, though: one bad element
or two equal ids refuse all of it, and a batch of notifications is answered with `[]`. The specification
(https://www.jsonrpc.org/specification, sections 4 to 7) wants an answer per element, so batches are taken apart here.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pjrpc.server
from pjrpc.server import exceptions

from .auth import Caller

MAX_BATCH = 100
_OUR_ID = "request"

log = logging.getLogger(__name__)


class UnauthorizedError(exceptions.TypedError):
    """The method needs the token, or the token given is wrong."""

    CODE = -32001
    MESSAGE = "Unauthorized"


class FullUpError(exceptions.TypedError):
    """A limit of the server does not allow it."""

    CODE = -32002
    MESSAGE = "Limit reached"


def new_dispatcher() -> pjrpc.server.Dispatcher[Caller]:
    """A dispatcher for requests that are parsed already: what it loads and dumps are Python values."""
    return pjrpc.server.Dispatcher(
        json_loader=lambda value, cls=None: value,
        json_dumper=lambda value, cls=None: value,
    )


def handle(dispatcher: pjrpc.server.Dispatcher[Caller], body: bytes, caller: Caller) -> tuple[int, bytes]:
    """Answer one HTTP body: (200, ...), (204, b"") when there is nothing to say, (400 or 500, ...) for an error."""
    try:
        request = parse(body)
    except ValueError as error:
        return _reply(_error(exceptions.ParseError(data=str(error))))
    if not isinstance(request, list):
        response = answer(dispatcher, request, caller)
        return (204, b"") if response is None else _reply(response)
    if not request:
        return _reply(invalid("the batch is empty"))
    if len(request) > MAX_BATCH:
        return _reply(invalid(f"the batch has {len(request)} requests; at most {MAX_BATCH} are allowed"))
    responses = [answer(dispatcher, element, caller) for element in request]
    said = [response for response in responses if response is not None]
    return (200, _dump(said)) if said else (204, b"")


def parse(body: bytes) -> Any:
    """The JSON value in `body`; ValueError says in one line why there is none."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_reject_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def answer(dispatcher: pjrpc.server.Dispatcher[Caller], request: Any, caller: Caller) -> dict[str, Any] | None:
    """The response object to one request object; None for a notification."""
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
        return None
    response: Any = dispatched[0]
    response["id"] = identity if response["id"] == _OUR_ID else None
    return _readable(response)


def invalid(reason: str) -> dict[str, Any]:
    """The response object that says that a request is none."""
    return _error(exceptions.InvalidRequestError(data=reason))


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


def _reply(response: dict[str, Any]) -> tuple[int, bytes]:
    error = response.get("error")
    if error is None:
        return 200, _dump(response)
    ours = error["code"] in (exceptions.InternalError.CODE, exceptions.ServerError.CODE)
    return 500 if ours else 400, _dump(response)


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
