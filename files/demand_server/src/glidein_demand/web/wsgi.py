# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the WSGI application under an ASGI server, on a fixed number of threads.

A thread gets a request only when its body is complete: slow clients wait in the event loop, where that costs nothing.
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

LATE = "glidein_demand.late"
"""Set in the environ of a request whose body did not arrive in time; the application answers that."""

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Bridge:
    """An ASGI application that answers with `application` (WSGI) on at most `threads` threads.

    A body of more than `max_body_bytes` is not kept: the application finds its length in CONTENT_LENGTH, and no body.
    A body that takes longer than `body_seconds` ends with LATE in the environ, and the connection after the answer.
    """

    def __init__(self, application: Wsgi, threads: int, max_body_bytes: int, body_seconds: float) -> None:
        self._application = application
        self._max_body_bytes = max_body_bytes
        self._body_seconds = body_seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="request")

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served")
        environ = environ_of(scope)
        try:
            body, size = await asyncio.wait_for(self._body(receive, environ), self._body_seconds)
        except asyncio.TimeoutError:
            body, size = b"", 0
            environ[LATE] = True
        except ConnectionError:
            return
        except asyncio.CancelledError:  # the server ends, and waits for nobody's body
            await _answer(send, 503, [(b"connection", b"close")], b"")
            return
        environ["CONTENT_LENGTH"] = str(size)
        environ["wsgi.input"] = io.BytesIO(body)
        loop = asyncio.get_running_loop()
        status, headers, answer = await loop.run_in_executor(self._pool, _run, self._application, environ)
        if environ.get(LATE):
            headers.append((b"connection", b"close"))
        await _answer(send, status, headers, answer)

    def close(self) -> None:
        """Let the threads end; what is at work is not waited for."""
        self._pool.shutdown(wait=False)

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


async def _answer(send: Callable[[Any], Any], status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _run(application: Wsgi, environ: dict[str, Any]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
        started[:] = [status, headers]

    answer = application(environ, start_response)
    with contextlib.closing(answer) if hasattr(answer, "close") else contextlib.nullcontext():  # type: ignore[type-var]
        body = b"".join(answer)
    status, headers = started
    return int(status[:3]), [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers], body
