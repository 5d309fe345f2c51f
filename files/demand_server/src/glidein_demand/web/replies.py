# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large results, serialised once for all callers that may see the same."""

from __future__ import annotations

import collections
import gzip
import hashlib
import json
import threading
import zlib
from collections.abc import Hashable, Mapping
from typing import Any, Callable

import orjson

from ..pool.demand import pyglidein_state

GZIP_LEVEL = 6
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


class Result:
    """A JSON-RPC result: its `value`, which nothing changes, and the same as `body`, JSON in UTF-8."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.body = dump(value)
        # Weak, since it stands for the compressed form too; of the content, so that it outlives a restart.
        self.etag = f'W/"{hashlib.sha256(self.body).hexdigest()[:32]}"'
        self._lock = threading.Lock()
        self._compressed: bytes | None = None
        self._begun: tuple[bytes, Any] | None = None

    def reply(self, identity: str | None, compress: bool) -> bytes:
        """Return the response to the request with this id (as JSON), or the bare result for None; compress: as gzip."""
        if identity is None:
            return self._gzip() if compress else self.body
        end = b',"id":' + identity.encode() + b"}"
        if not compress:
            return _BEGIN + self.body + end
        begun, compressor = self._begin_gzip()
        # Only the end differs between two responses: a copy of the compressor goes on from the common part.
        rest = compressor.copy()
        return begun + rest.compress(end) + rest.flush()

    def _gzip(self) -> bytes:
        with self._lock:
            if self._compressed is None:
                self._compressed = gzip.compress(self.body, GZIP_LEVEL, mtime=0)
            return self._compressed

    def _begin_gzip(self) -> tuple[bytes, Any]:
        with self._lock:
            if self._begun is None:
                compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
                begun = compressor.compress(_BEGIN + self.body) + compressor.flush(zlib.Z_SYNC_FLUSH)
                self._begun = (begun, compressor)
            return self._begun


_BEGIN = b'{"jsonrpc":"2.0","result":'


class Replies:
    """The last `size` results of one source, such as a reading of the pool. Safe from many threads."""

    def __init__(self, size: int = 32) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._source: object = None
        self._kept: collections.OrderedDict[Hashable, tuple[float, Result]] = collections.OrderedDict()

    def get(self, source: object, key: Hashable, now: float, make: Callable[[], tuple[Any, float]]) -> Result:
        """Return the result kept under `key`, or what `make` gives: (value, epoch until which it is true).

        source: what the results are made of. Another source than the last one makes all kept results void.
        """
        with self._lock:  # one thread makes a result, and the others wait for it
            if source is not self._source:
                self._source = source
                self._kept.clear()
            until, found = self._kept.get(key, (now, None))
            if found is None or until <= now:
                value, until = make()
                found = Result(value)
                self._kept[key] = (until, found)
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return found


def demand_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> dict[str, Any]:
    """Return what a caller gets of the demand: less what others hold, {group id: jobs}, and whether all is paused.

    `leased` of a group is how many of its idle jobs others hold, so that `count` + `leased` is what the queue has.
    """
    groups = []
    for group in demand["groups"]:
        leased = min(held.get(group["id"], 0), group["count"])
        groups.append({**group, "count": group["count"] - leased, "leased": leased})
    return {**demand, "groups": groups, "paused": paused}


def state_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> list[dict[str, Any]]:
    """Return the result of get_state: PyGlidein's groups of the jobs that no lease holds; none while paused.

    demand: the one for callers with a token. PyGlidein's clients do not know the stop switch: without demand they
    submit nothing.
    """
    return [] if paused else pyglidein_state(demand_for(demand, held, paused)["groups"])


def dump(value: Any) -> bytes:
    """Return JSON without spaces, in UTF-8."""
    try:
        return orjson.dumps(value)
    except TypeError:  # integers of more than 64 bits, lone surrogates: both are valid in JSON
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
