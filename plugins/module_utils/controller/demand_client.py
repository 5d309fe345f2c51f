# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON-RPC 2.0 client of the demand server. It runs on the controller and needs the library requests."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, TypeVar, Union
from urllib.parse import urlparse

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    InputError,
    NoAnswerError,
    RefusedError,
    ServerError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import Jobs

# The protocol's error code for a token that is missing, unknown, for reading only, or another site's.
_UNAUTHORIZED = -32001
_METHOD_NOT_FOUND = -32601
# PyGlidein's server has get_state and monitoring only.
_PYGLIDEIN = (
    ". This looks like a PyGlidein server, which cannot serve glidein.ops. Install the demand server with "
    "glidein.ops.deploy, which also answers PyGlidein's clients, and set glidein_demand_url to its address"
)
# Seconds for the connection, and for each part of the reply.
_TIMEOUTS_S = (10, 60)
# Bytes of a reply in which an error looks for text to quote.
_QUOTED = 65536

try:
    import requests
except ImportError:
    requests = None  # type: ignore[assignment]  # it is a module otherwise; DemandClient checks it

_Read = TypeVar("_Read")


class DemandClient:
    """The client of one demand server.

    url: its base address, glidein_demand_url; token: required by methods that write, or None; verify: True, or the path
    of a CA bundle. Raises InputError.
    """

    def __init__(self, url: str, token: Optional[str] = None, verify: Union[bool, str] = True) -> None:
        if requests is None:
            raise InputError(missing_required_lib("requests"))
        self.url = endpoint(url)
        self.token = token
        self.verify = verify

    def call(self, method: str, params: Optional[Dict[str, Any]] = None) -> Any:
        """Call a JSON-RPC method and return its result.

        Redirects are not followed: they would send the token to another address. Raises ServerError, which names URL,
        method and reply, but never the token; NoAnswerError if no reply arrives; RefusedError if the server refuses the
        token.
        """
        try:
            return self._call(method, params or {})
        except ServerError as error:
            if self.token and self.token in str(error):
                raise type(error)(str(error).replace(self.token, "********")) from None
            raise

    def _call(self, method: str, params: Dict[str, Any]) -> Any:
        request: Dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
        try:
            response = requests.post(
                self.url,
                json=request,
                auth=self._authorise,
                timeout=_TIMEOUTS_S,
                verify=self.verify,
                allow_redirects=False,
            )
        except requests.exceptions.RequestException as error:
            raise NoAnswerError(f"Demand server {self.url}, {method}: no answer: {_reason(error)}") from error
        return _result(self.url, method, response)

    def lease(self, site: str, entries: Jobs, ttl_s: int, deployment: Optional[str]) -> Tuple[Jobs, Optional[int]]:
        """Request leases on jobs for a site; return (granted, limit).

        entries, granted: {entry: {group id: jobs}}; limit: the site's limit on leased jobs if it has reduced the grant,
        else None. deployment: its name; the server refuses a second deployment
        that uses the site's name; None: not checked. Raises ServerError.
        """
        answer = self.call("lease", {"site": site, "entries": entries, "ttl_s": ttl_s, "deployment": deployment})
        granted = answer.get("granted") if isinstance(answer, dict) else None
        if not isinstance(granted, dict) or not all(_is_grant(granted.get(entry)) for entry in entries):
            raise ServerError(f"Demand server {self.url}, lease: no grants: {excerpt(str(answer))}")
        return granted, answer.get("site_limit")

    def _authorise(self, request: "requests.PreparedRequest") -> "requests.PreparedRequest":
        # As an auth callable, so that requests does not replace the token by a login from ~/.netrc.
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def with_first_token(
    connect: Callable[[Optional[str]], DemandClient], tokens: Iterable[str], read: Callable[[DemandClient], _Read]
) -> _Read:
    """Return read(client) of the first token that the server does not refuse; without any token, of a client without.

    connect: a function of a token that returns a client. Raises GlideinError.
    """
    known: List[Optional[str]] = list(tokens)
    *others, last = known or [None]
    for token in others:
        try:
            return read(connect(token))
        except RefusedError:
            continue
    return read(connect(last))


def _reason(error: BaseException) -> str:
    """Return the reason of a failed request: the error that requests and urllib3 have wrapped in others."""
    source = "the HTTP proxy: " if isinstance(error, requests.exceptions.ProxyError) else ""
    inner: Optional[BaseException] = error
    while inner is not None:
        error = inner
        inner = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return excerpt(source + (getattr(error, "strerror", None) or str(error)))


def _result(url: str, method: str, response: "requests.Response") -> Any:
    """Return the result of a JSON-RPC reply. url, method: for errors. Raises ServerError."""
    status = response.status_code
    where = f"Demand server {url}, {method}: HTTP {status}"
    if 300 <= status < 400:
        target = excerpt(response.headers.get("Location") or "an unknown address")
        raise ServerError(
            f"{where}, a redirect to {target}, which is not followed; set glidein_demand_url to the server's address."
        )
    text = excerpt(response.content[:_QUOTED].decode("utf-8", "replace")) or "nothing"
    try:
        answer = response.json()
    except ValueError as error:
        raise ServerError(f"{where}, not JSON: {text!r}") from error
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
        refusal = answer["error"]
        data = f" ({excerpt(str(refusal['data']))})" if refusal.get("data") else ""
        message = excerpt(str(refusal.get("message")))
        if refusal.get("code") == _UNAUTHORIZED:
            # Without the method: the same token is refused by each, for one reason.
            raise RefusedError(
                f"Demand server {url}: no valid token (HTTP {status}, JSON-RPC error {_UNAUTHORIZED}: {message}{data})"
                "; correct glidein_demand_token, or run glidein.ops.deploy"
            )
        remedy = _PYGLIDEIN if refusal.get("code") == _METHOD_NOT_FOUND and method == "get_demand" else ""
        raise ServerError(f"{where}, JSON-RPC error {refusal.get('code')}: {message}{data}{remedy}")
    if status != 200 or not isinstance(answer, dict) or "result" not in answer:
        raise ServerError(f"{where}, no JSON-RPC result: {text!r}")
    return answer["result"]


def _is_grant(groups: Any) -> bool:
    return isinstance(groups, dict) and all(isinstance(jobs, int) and jobs >= 0 for jobs in groups.values())


def endpoint(url: str) -> str:
    """Return the address of the JSON-RPC interface. Raises InputError if the URL (glidein_demand_url) is invalid."""
    rule = "http:// or https://, a host, and optionally a port and a path, without user and password"
    try:
        parts = urlparse(url)
        good = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.password
        good = good and not parts.query and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        # An error must not show a password in the address.
        shown = url if "@" not in url else "(not shown: it contains an @)"
        raise InputError(invalid("glidein_demand_url", shown, rule))
    return url.rstrip("/") + "/jsonrpc"
