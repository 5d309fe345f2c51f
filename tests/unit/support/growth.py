# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of how a function's cost grows with its input, independent of the machine's speed."""

import contextlib
import signal
import sys

SCALE = 8


def assert_linear(function, small, large):
    """Assert that `function` executes about SCALE times as many lines for `large`, which is SCALE times `small`.

    Linear growth gives a ratio of at most SCALE, quadratic growth one of SCALE squared. Each step of a loop and of a
    comprehension counts as a line. Work within functions that are written in C does not count. Return the result for
    `large`.
    """
    few, _result = _counted(function, small)
    many, result = _counted(function, large)
    assert many < 2 * SCALE * few, f"{SCALE} times the input takes {many / few:.0f} times as many steps"
    return result


def _counted(function, argument):
    """Return the number of lines that a call executes, and its result."""
    lines = [0]

    def count(_frame, event, _argument):
        if event == "line":
            lines[0] += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        result = function(argument)
    finally:
        sys.settrace(before)
    return lines[0], result


@contextlib.contextmanager
def hang_is_ended(after_s):
    """Fail after this time; for inputs whose processing takes hours if its cost is not linear, and else seconds."""

    def fail(_signal, _frame):
        raise AssertionError(f"not finished after {after_s} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(after_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
