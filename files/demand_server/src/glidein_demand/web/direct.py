# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers the plain get_state calls of PyGlidein's clients without Flask, which costs more than the reply itself.

The reply is the one that the application would give. Requests that are not plain calls (a batch, compression,
If-None-Match, another Content-Type, an error) go to the application.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..app_state import AppState as Parts
from . import auth, limits, rpc
from .metrics import Metrics
from .replies import Result
from .views import Views
from .wsgi import COUNTED, LATE, Wsgi

METHOD = "get_state"
LARGEST_BODY = 4096


class DirectState:
    """A WSGI application in front of `application`; headers: those of every reply."""

    def __init__(
        self,
        application: Wsgi,
        parts: Parts,
        views: Views,
        rate: limits.RateLimit,
        metrics: Metrics,
        headers: Mapping[str, str],
    ) -> None:
        self._application = application
        self._parts = parts
        self._views = views
        self._rate = rate
        self._metrics = metrics
        self._headers = [*headers.items()]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a plain get_state call, or hand the request to the application."""
        identity = self._identity(environ)
        result = None if identity is None else self._result(environ)
        if result is None:
            return self._application(environ, start_response)
        body = result.reply(identity, compress=False)
        length = ("Content-Length", str(len(body)))
        start_response("200 OK", [length, ("ETag", result.etag), *self._headers])
        return [body]

    def _result(self, environ: dict[str, Any]) -> Result | None:
        """Return the result of get_state for the caller; None if the call must be refused."""
        caller = auth.identify(environ.get("HTTP_AUTHORIZATION"), self._parts.tokens.identify)
        if caller.kind == "refused" or (self._parts.settings.reading == "token" and not caller.is_known):
            return None
        if not environ.get(COUNTED):
            # A refused call is counted again by the application, which says how long to wait.
            if self._rate.hit(limits.who(caller, environ.get("REMOTE_ADDR", ""))):
                return None
            environ[COUNTED] = True
        result = self._views.state(caller)
        self._metrics.called(METHOD, True)
        return result

    def _identity(self, environ: dict[str, Any]) -> str | None:
        """Return the id, as JSON, of a plain get_state call; None for every other request."""
        if (
            environ["REQUEST_METHOD"] != "POST"
            or environ["PATH_INFO"] != "/jsonrpc"
            or environ.get("CONTENT_TYPE") != "application/json"
            or environ.get("HTTP_ACCEPT_ENCODING", "identity") != "identity"
            or "HTTP_IF_NONE_MATCH" in environ
            or environ.get(LATE)
        ):
            return None
        length = environ.get("CONTENT_LENGTH") or "0"
        if not (length.isascii() and length.isdigit() and len(length) < 5 and 0 < int(length) <= LARGEST_BODY):
            return None
        body = environ["wsgi.input"].read(int(length))
        environ["wsgi.input"] = io.BytesIO(body)
        return rpc.identity_of_plain_call(body, METHOD)
