# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large results that are serialised once for all callers with the same access."""

from __future__ import annotations

import collections
import json
import threading
from collections.abc import Hashable
from typing import Any, Callable

import msgspec


class JsonResult:
    """A JSON-RPC result: its `value`, which must not change, and `body`, the same value as JSON in UTF-8."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.body = dump(value)

    def reply(self, identity: bytes) -> bytes:
        """Return the response to the request with this id (as JSON)."""
        return b'{"jsonrpc":"2.0","result":' + self.body + b',"id":' + identity + b"}"


class ResultCache:
    """The last `size` results of one source, such as a snapshot of the pool.

    Safe for concurrent use by several threads.
    """

    def __init__(self, size: int = 32) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._source: object = None
        self._cached: collections.OrderedDict[Hashable, tuple[float, JsonResult]] = collections.OrderedDict()

    def clear(self) -> None:
        """Remove the cached results, also one that is being computed."""
        with self._lock:
            self._cached.clear()

    def get(self, source: object, key: Hashable, now: float, make: Callable[[], tuple[Any, float]]) -> JsonResult:
        """Return the cached result of `key`, else that of `make`, which returns (value, epoch of its expiry).

        source: the data that the results are made of. If it differs from that of the last call, the cache is cleared.
        """
        with self._lock:  # one thread computes a result, and the others wait for it
            if source is not self._source:
                self._source = source
                self._cached.clear()
            until, result = self._cached.get(key, (now, None))
            if result is None or until <= now:
                value, until = make()
                result = JsonResult(value)
                self._cached[key] = (until, result)
                while len(self._cached) > self._size:
                    self._cached.popitem(last=False)
            self._cached.move_to_end(key)
            return result


def dump(value: Any) -> bytes:
    """Return JSON without spaces, in UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # lone surrogates, which are valid in JSON
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
