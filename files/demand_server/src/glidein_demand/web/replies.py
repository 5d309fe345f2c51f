# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large results, serialised and compressed once and kept for all who ask the same."""

from __future__ import annotations

import collections
import gzip
import hashlib
import json
import threading
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Callable

from .. import waiting
from ..pool.demand import pyglidein_state

USUAL_IDS = ("0", "1")
"""Ids (as JSON) that most clients use: whole replies with these are kept, others are put together each time."""

PIECE = 20
"""So many items of a list become text at once, while no other thread of Python's can go on."""

QUICK_BYTES = 32 * 1024
"""To compress more takes longer than a millisecond."""


class Result:
    """A JSON-RPC result as bytes, with the replies made of it; compressed: replies that are there already, by id."""

    def __init__(self, body: bytes, compressed: Mapping[str, bytes] | None = None, value: Any = None) -> None:
        self.body = body
        self._value = value
        # Weak, since it stands for the compressed form too; of the content, so that it outlives a restart.
        self.etag = f'W/"{hashlib.sha256(self.body).hexdigest()[:32]}"'
        self._whole: dict[str, tuple[bytes, bytes]] = {
            identity: (self.envelope(identity), packed) for identity, packed in (compressed or {}).items()
        }

    @classmethod
    def of(cls, value: Any) -> Result:
        """The result that says `value`."""
        return cls(in_pieces(value), value=value)

    @property
    def value(self) -> Any:
        """What it says, which nobody changes."""
        if self._value is None:
            self._value = json.loads(self.body)
        return self._value

    def envelope(self, identity: str) -> bytes:
        """The response object around this result; `identity` is the request's id as JSON."""
        return b'{"jsonrpc":"2.0","result":' + self.body + b',"id":' + identity.encode() + b"}"

    def reply(self, identity: str | None, compress: bool) -> bytes:
        """The response to one request, or, with None, the bare result; with `compress` as gzip."""
        key = "" if identity is None else identity
        if key and key not in USUAL_IDS:
            whole = self.envelope(key)
            return _compressed(whole, 1) if compress else whole
        if key not in self._whole:  # two threads may both make it: the same
            whole = self.envelope(key) if key else self.body
            self._whole[key] = (whole, _compressed(whole, 6))
        return self._whole[key][compress]


class Replies:
    """The last `size` results that differed in what they are made of; safe from many threads."""

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._making = threading.Lock()  # apart, so that who asks for what is there waits for no maker
        self._kept: collections.OrderedDict[Hashable, tuple[float, Result]] = collections.OrderedDict()

    def get(self, key: Hashable, now: float, make: Callable[[], tuple[Any, float]]) -> Result:
        """The result kept under `key`, or what `make` gives: (value, epoch until which it is true)."""
        found = self._look(key, now)
        if found is not None:
            return found
        waiting.begins()
        with self._making:  # made once, also when many ask at the same moment
            found = self._look(key, now)
            if found is None:
                value, until = make()
                found = Result.of(value)
                self.put(key, until, found)
            return found

    def put(self, key: Hashable, until: float, result: Result) -> None:
        """Keep `result`, which is true until that epoch, under `key`."""
        with self._lock:
            self._kept[key] = (until, result)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def _look(self, key: Hashable, now: float) -> Result | None:
        with self._lock:
            until, found = self._kept.get(key, (now, None))
            if until <= now:
                return None
            self._kept.move_to_end(key)
            return found


def demand_for(demand: Mapping[str, Any], held: Mapping[str, int], paused: bool) -> dict[str, Any]:
    """What a caller gets of the demand: less what others hold, {group id: jobs}, and whether all is paused.

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
    """JSON without spaces. Raises ValueError for what JSON cannot say."""
    return _text(value).encode()


def in_pieces(value: Any) -> bytes:
    """The same as dump, in pieces between which other threads get their turn: what is large takes milliseconds."""
    return "".join(_pieces(value)).encode()


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for number, name in enumerate(value):
            yield f"{',' if number else '{'}{_text(name)}:"
            yield from _pieces(value[name])
        yield "}" if value else "{}"
    elif isinstance(value, (list, tuple)) and len(value) > PIECE:
        for first in range(0, len(value), PIECE):
            yield f"{',' if first else '['}{_text(value[first : first + PIECE])[1:-1]}"
        yield "]"
    else:
        yield _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _compressed(body: bytes, level: int) -> bytes:
    if len(body) > QUICK_BYTES:
        waiting.begins()
    return gzip.compress(body, level, mtime=0)
