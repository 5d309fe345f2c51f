# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large results that are serialised once for all callers with the same access."""

from __future__ import annotations

import collections
import gzip
import hashlib
import json
import threading
import zlib
from collections.abc import Hashable, Mapping
from typing import Any, Callable

import msgspec

from .pool.demand import pyglidein_state

GZIP_LEVEL = 6
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


class JsonResult:
    """A JSON-RPC result: its `value`, which must not change, and `body`, the same value as JSON in UTF-8."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.body = dump(value)
        # Weak, because the compressed form has the same ETag. A hash of the content stays valid after a restart.
        self.etag = f'W/"{hashlib.sha256(self.body).hexdigest()[:32]}"'
        self._lock = threading.Lock()
        self._compressed: bytes | None = None
        self._common_part: tuple[bytes, Any] | None = None

    def reply(self, identity: str | None, compress: bool) -> bytes:
        """Return the response to the request with this id (as JSON), or the bare result if None.

        compress: return it as gzip.
        """
        if identity is None:
            return self._gzip() if compress else self.body
        end = b',"id":' + identity.encode() + b"}"
        if not compress:
            return _BEGIN + self.body + end
        prefix, compressor = self._common_gzip()
        # Only the end differs between two responses: a copy of the compressor continues after the common part.
        rest = compressor.copy()
        return prefix + rest.compress(end) + rest.flush()

    def _gzip(self) -> bytes:
        with self._lock:
            if self._compressed is None:
                self._compressed = gzip.compress(self.body, GZIP_LEVEL, mtime=0)
            return self._compressed

    def _common_gzip(self) -> tuple[bytes, Any]:
        with self._lock:
            if self._common_part is None:
                compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
                prefix = compressor.compress(_BEGIN + self.body) + compressor.flush(zlib.Z_SYNC_FLUSH)
                self._common_part = (prefix, compressor)
            return self._common_part


_BEGIN = b'{"jsonrpc":"2.0","result":'


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


def demand_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> dict[str, Any]:
    """Return the demand less the jobs that other sites hold leases on, `held` {group id: jobs}.

    `leased` of a group is the number of its idle jobs that other sites hold: `count` + `leased` are in the queue.
    """
    groups = []
    for group in demand["groups"]:
        leased = min(held.get(group["id"], 0), group["count"])
        groups.append({**group, "count": group["count"] - leased, "leased": leased})
    return {**demand, "groups": groups, "paused": paused}


def state_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> list[dict[str, Any]]:
    """Return the result of get_state: PyGlidein's groups of the jobs without a lease; an empty list while paused.

    demand: the demand for callers with a token. PyGlidein's clients do not support `paused`: without demand they
    submit nothing.
    """
    return [] if paused else pyglidein_state(demand_for(demand, held, paused)["groups"])


def dump(value: Any) -> bytes:
    """Return JSON without spaces, in UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # lone surrogates, which are valid in JSON
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
