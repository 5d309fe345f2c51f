# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The background thread of all periodic work."""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable

from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)

EXPECTED = (OSError, SQLAlchemyError)
"""Failures that are logged without a traceback."""


class Every(threading.Thread):
    """A thread that calls `work` every `seconds` seconds, first after `delay_s`, until stop().

    After a failure, the next call comes at its time. Of equal failures in a row, only the first is logged.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[], object], delay_s: float = 0) -> None:
        super().__init__(name=name, daemon=True)
        self._seconds = seconds
        self._work = work
        self._delay_s = delay_s
        self._problem = ""
        self._ended = threading.Event()

    def run(self) -> None:
        """Work until stop()."""
        self._ended.wait(self._delay_s)
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._work()
                self._problem = ""
            except Exception as error:  # noqa: BLE001 - the next call may succeed
                self._log(error)
            self._ended.wait(max(0.0, self._seconds - (time.monotonic() - began)))

    def stop(self) -> None:
        """End the thread after the work that is running; do not wait for it."""
        self._ended.set()

    def _log(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if problem != self._problem:
            log.error("%s failed: %s", self.name, problem, exc_info=not isinstance(error, EXPECTED))
        self._problem = problem
