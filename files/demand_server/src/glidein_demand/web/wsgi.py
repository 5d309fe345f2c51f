# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the WSGI application under an ASGI server, on a fixed number of threads.

A thread gets a request only when its body is complete: slow clients wait in the event loop, where that costs nothing.
What needs no waiting is answered in the event loop itself: the way to a thread and back costs more than most answers,
and much more while all processors are busy.
(a2wsgi, the usual bridge, streams bodies through the thread; a few slow senders then hold all threads. It also took
five times as long per request.)
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from .. import waiting

LATE = "glidein_demand.late"
"""Set in the environ of a request whose body did not arrive in time; the application answers that."""

COUNTED = "glidein_demand.counted"
"""Set by the application in the environ of a request that counts for its caller's rate; it may get the same again."""

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Reply = tuple[int, list[tuple[bytes, bytes]], bytes]


class Bridge:
    """An ASGI application that answers with `application` (WSGI) on at most `threads` threads.

    A body of more than `max_body_bytes` is not kept: the application finds its length in CONTENT_LENGTH, and no body.
    A body that takes longer than `body_seconds` ends with LATE in the environ, and the connection after the answer.
    instant(environ, body) says which requests are tried in the event loop first. One that turns out to need waiting
    goes to a thread, from its beginning: it must not have changed anything yet.
    """

    def __init__(
        self,
        application: Wsgi,
        threads: int,
        max_body_bytes: int,
        body_seconds: float,
        instant: Callable[[dict[str, Any], bytes], bool] = lambda _environ, _body: False,
    ) -> None:
        self._application = application
        self._instant = instant
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="request")

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served")
        environ = environ_of(scope)
        loop = asyncio.get_running_loop()
        # asyncio.wait_for() would make a task of it, for each request.
        patience = loop.call_later(self._body_seconds, _late, environ, asyncio.current_task())
        try:
            body, size = await self._body(receive, environ)
        except ConnectionError:
            return
        except asyncio.CancelledError:
            if not environ.get(LATE):  # the server ends, and waits for nobody's body
                await _answer(send, 503, [(b"connection", b"close")], b"")
                return
            body, size = b"", 0
        finally:
            patience.cancel()
        environ["CONTENT_LENGTH"] = str(size)
        reply = self._at_once(environ, body)
        if reply is None:
            environ["wsgi.input"] = io.BytesIO(body)
            reply = await loop.run_in_executor(self._pool, _run, self._application, environ)
        status, headers, answer = reply
        if environ.get(LATE):
            headers.append((b"connection", b"close"))
        await _answer(send, status, headers, answer)

    def close(self) -> None:
        """Let the threads end; what is at work is not waited for."""
        self._pool.shutdown(wait=False)

    def _at_once(self, environ: dict[str, Any], body: bytes) -> Reply | None:
        """The answer to a request that needs no waiting; None for all others."""
        if environ.get(LATE) or not self._instant(environ, body):
            return None
        environ["wsgi.input"] = io.BytesIO(body)
        try:
            with waiting.forbidden():
                return _run(self._application, environ)
        except waiting.MustWait:
            return None

    async def _body(self, receive: Callable[[], Any], environ: dict[str, Any]) -> tuple[bytes, int]:
        """(the body, its length); (b"", length so far or as announced) of one that is too long."""
        announced = environ.get("CONTENT_LENGTH", "")
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._max_body_bytes:
            return b"", int(announced[:20])
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionAbortedError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self._max_body_bytes:
                return b"", size
        return b"".join(parts), size


def environ_of(scope: dict[str, Any]) -> dict[str, Any]:
    """The environ (PEP 3333) of an ASGI HTTP scope, without the body. Repeated headers are joined by commas."""
    host, port = scope.get("server") or ("localhost", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8", "surrogateescape").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        # A name with an underscore would be taken for the one with a hyphen; chunks are put together already.
        if b"_" in raw_name or raw_name == b"transfer-encoding":
            continue
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        key = name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"
        value = raw_value.decode("latin-1")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ


def _late(environ: dict[str, Any], task: asyncio.Task[Any]) -> None:
    environ[LATE] = True
    task.cancel()


async def _answer(send: Callable[[Any], Any], status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _run(application: Wsgi, environ: dict[str, Any]) -> Reply:
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
        started[:] = [status, headers]

    answer = application(environ, start_response)
    with contextlib.closing(answer) if hasattr(answer, "close") else contextlib.nullcontext():  # type: ignore[type-var]
        body = b"".join(answer)
    status, headers = started
    return int(status[:3]), [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers], body
