# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A value read from the database, kept for a short while: what makes a request need no query of its own."""

from __future__ import annotations

import threading
import time
from typing import Callable, Generic, TypeVar

MAX_AGE_S = 0.5

T = TypeVar("T")


class Fresh(Generic[T]):
    """The result of `load`, never older than `max_age_s` (seconds) by the monotonic clock.

    This works alike with every database. One thread loads at a time and the others wait for what it finds: nobody acts
    on what is too old. An error of `load` is raised, and the next caller tries again.
    """

    def __init__(self, load: Callable[[], T], max_age_s: float = MAX_AGE_S) -> None:
        self._load = load
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._kept: tuple[float, T] | None = None

    def get(self) -> T:
        kept = self._kept
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        with self._lock:
            kept = self._kept
            if kept is not None and time.monotonic() < kept[0]:
                return kept[1]
            # Counted from before the reading: a change that comes during it must not be missed for longer.
            until = time.monotonic() + self._max_age_s
            value = self._load()
            self._kept = (until, value)
            return value

    def renew(self) -> T:
        """The value as it is now; for after a change."""
        with self._lock:
            until = time.monotonic() + self._max_age_s
            value = self._load()
            self._kept = (until, value)
            return value
