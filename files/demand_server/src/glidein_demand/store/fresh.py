# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A value read from the database, kept for a short while: what makes a request need no query of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Callable, Generic, TypeVar

MAX_AGE_S = 0.5

log = logging.getLogger(__name__)

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
        self._asked = False

    def get(self) -> T:
        self._asked = True
        kept = self._kept
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        with self._lock:
            kept = self._kept
            if kept is not None and time.monotonic() < kept[0]:
                return kept[1]
            return self._loaded()

    def renew(self) -> T:
        """The value as it is now; for after a change."""
        with self._lock:
            return self._loaded()

    def keep(self) -> None:
        """Load it ahead of its age: when half of that is over, and somebody asked for it meanwhile."""
        kept = self._kept
        if self._asked and kept is not None and kept[0] - time.monotonic() < self._max_age_s / 2:
            self.renew()

    def _loaded(self) -> T:
        """Load it; needs the lock."""
        # Counted from before the reading: a change that comes during it must not be missed for longer.
        until = time.monotonic() + self._max_age_s
        self._asked = False
        value = self._load()
        self._kept = (until, value)
        return value


class Renewer:
    """A background thread that loads values which are in use ahead of their age, so that no request waits for it."""

    def __init__(self, values: Iterable[Fresh[Any]]) -> None:
        self._values = list(values)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renew", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Ask the thread to end, and wait for it so many seconds."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.wait(MAX_AGE_S / 5):
            for value in self._values:
                try:
                    value.keep()
                except Exception:  # noqa: BLE001 - who needs the value loads it himself then, and is told what is wrong
                    log.debug("a value could not be loaded ahead", exc_info=True)
