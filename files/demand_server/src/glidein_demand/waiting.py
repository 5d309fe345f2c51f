# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that must not wait: the event loop, while it answers a request itself.

Whoever is about to do what takes long (a query, a file, work for many milliseconds, a lock that is held over any of
these) says so with `begins`. In a thread that must not wait that raises, and the request is given to one that may.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_thread = threading.local()


class MustWait(BaseException):
    """What was begun cannot be done without waiting. Not an Exception: no handler on the way may answer it."""


@contextlib.contextmanager
def forbidden() -> Iterator[None]:
    """Inside, nothing that this thread does may wait."""
    _thread.forbidden = True
    try:
        yield
    finally:
        _thread.forbidden = False


def begins() -> None:
    """What follows takes long. Raises MustWait where that is forbidden."""
    if getattr(_thread, "forbidden", False):
        raise MustWait
