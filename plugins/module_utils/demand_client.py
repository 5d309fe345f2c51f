# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON-RPC 2.0 to the demand server. Runs on the controller, with the requests library."""

import traceback
from urllib.parse import urlparse

from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    InputError,
    InvalidParamsError,
    NoAnswerError,
    RefusedError,
    ServerError,
)
from ansible_collections.glidein.ops.plugins.module_utils.server_token import TOKEN, UNFIT

# The protocol's code for a token that is needed, unknown, a reader's, or of another site.
_UNAUTHORIZED = -32001
_INVALID_PARAMS = -32602

REQUESTS_ERROR = None
try:
    import requests
except ImportError:
    requests = None
    REQUESTS_ERROR = traceback.format_exc()


def server_argument_spec():
    """Return the argument spec of the doc fragment `server`."""
    return {
        "server_url": {"type": "str", "required": True},
        "token": {"type": "str", "no_log": True},
        "timeout": {"type": "int", "default": 30},
        "ca_path": {"type": "path"},
        "validate_certs": {"type": "bool", "default": True},
    }


class DemandClient:
    """One demand server.

    server_url: its base address; token: for methods that write, or None; timeout_s: seconds without an answer;
    verify: True, False or the path of a CA bundle. Raises InputError.
    """

    def __init__(self, server_url, token=None, timeout_s=30, verify=True):
        self.url = _endpoint(server_url)
        if timeout_s < 1:
            raise InputError(f"timeout: {timeout_s!r} is not accepted; allowed: whole seconds, 1 or more")
        if token and not TOKEN.match(token):
            raise InputError(f"token: {UNFIT}")
        self.token = token or None
        self.timeout_s = timeout_s
        self.verify = verify

    @classmethod
    def from_params(cls, params):
        """Make a client of the values of server_argument_spec."""
        verify = params["ca_path"] or True if params["validate_certs"] else False
        return cls(params["server_url"], params["token"], params["timeout"], verify)

    def call(self, method, params=None):
        """Call a JSON-RPC method and return its result.

        Raises ServerError that names URL, method and what came back, NoAnswerError when nothing did, RefusedError when
        the token is not good for it. Redirects are not followed: they would hand the token to another address.
        """
        request = {"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1}
        try:
            response = requests.post(
                self.url,
                json=request,
                auth=self._authorise,
                timeout=self.timeout_s,
                verify=self.verify,
                allow_redirects=False,
            )
        except requests.exceptions.RequestException as error:
            raise NoAnswerError(f"Demand server {self.url}, {method}: no answer: {excerpt(str(error))}") from error
        return self._result(method, response)

    def call_with(self, method, params, newer):
        """Call a method with the parameters `newer` besides, without them where the server does not know them."""
        try:
            return self.call(method, dict(params, **newer))
        except InvalidParamsError:
            if not newer:
                raise
            return self.call(method, params)

    def lease(self, site, claims, ttl_s):
        """Claim jobs for a site, {entry: {group id: jobs}}; return {"granted": the same, "expires": epoch}.

        Raises ServerError.
        """
        answer = self.call("lease", {"site": site, "entries": claims, "ttl_s": ttl_s})
        granted = answer.get("granted") if isinstance(answer, dict) else None
        if not isinstance(granted, dict) or not all(_is_grant(granted.get(entry)) for entry in claims):
            raise ServerError(f"Demand server {self.url}, lease: no grants: {excerpt(str(answer))}")
        return {"granted": granted, "expires": answer.get("expires")}

    def _authorise(self, request):
        # As an auth callable, so that requests does not put a login from ~/.netrc in its place.
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request

    def _result(self, method, response):
        where = f"Demand server {self.url}, {method}: HTTP {response.status_code}"
        if response.is_redirect or 300 <= response.status_code < 400:
            target = excerpt(response.headers.get("Location", "an unnamed place"))
            raise ServerError(
                f"{where}, a redirect to {target}, which is not followed; set server_url to where the server is."
            )
        try:
            answer = response.json()
        except ValueError as error:
            raise ServerError(f"{where}, not JSON: {excerpt(response.text) or 'nothing'!r}") from error
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            error = answer["error"]
            data = f" ({excerpt(str(error['data']))})" if error.get("data") else ""
            message = excerpt(str(error.get("message")))
            kinds = {_UNAUTHORIZED: RefusedError, _INVALID_PARAMS: InvalidParamsError}
            kind = kinds.get(error.get("code"), ServerError)
            raise kind(f"{where}, JSON-RPC error {error.get('code')}: {message}{data}")
        if response.status_code != 200 or not isinstance(answer, dict) or "result" not in answer:
            raise ServerError(f"{where}, no JSON-RPC result: {excerpt(response.text) or 'nothing'!r}")
        return answer["result"]


def _is_grant(groups):
    return isinstance(groups, dict) and all(isinstance(jobs, int) and jobs >= 0 for jobs in groups.values())


def _endpoint(server_url):
    rule = "http:// or https://, a host, and perhaps a port and path; no user or password"
    try:
        parts = urlparse(server_url)
        good = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.password
        good = good and not parts.query and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        # A password in the address must not come out in an error.
        shown = server_url if "@" not in server_url else "(not shown, it holds an @)"
        raise InputError(f"server_url: {shown!r} is not accepted; allowed: {rule}")
    return server_url.rstrip("/") + "/jsonrpc"
