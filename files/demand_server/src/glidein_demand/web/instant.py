# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which requests are answered at once, from what is in memory."""

from __future__ import annotations

from typing import Any

from . import rpc

MAX_BODY_BYTES = 4096
METHODS = frozenset(["get_demand", "get_state", "get_supply"])
"""Reading methods whose replies are kept."""
PATHS = frozenset(["/healthz", "/demand", "/supply"])


def is_instant(environ: dict[str, Any], body: bytes) -> bool:
    """Whether a request changes nothing, and can usually be answered without any waiting.

    environ: PEP 3333. It is tried in the event loop then; what turns out to need waiting (see waiting.py) is not lost.
    """
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    if method == "GET":
        return path in PATHS
    if method != "POST" or path != "/jsonrpc" or len(body) > MAX_BODY_BYTES:
        return False
    try:
        request = rpc.parse(body)
    except ValueError:
        return False
    # Of a batch each call would have to be looked at; and a name may be anything that JSON has, also a list.
    name = request.get("method") if isinstance(request, dict) else None
    return isinstance(name, str) and name in METHODS
