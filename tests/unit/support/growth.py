# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of how a function's cost grows with its input, independent of the machine's speed."""

import gc
import time

SCALE = 10
_ROUNDS = 3


def assert_linear(function, small, large):
    """Assert that `function` takes about SCALE times as long for `large`, which is SCALE times as long as `small`.

    Linear growth gives a ratio of SCALE, quadratic growth one of SCALE squared. The bound is between the two, with
    enough distance from both for a busy machine. Return the result for `large`.
    """
    small_s, large_s = [], []
    for _unused in range(_ROUNDS):
        small_s.append(_timed(function, small)[0])
        seconds, result = _timed(function, large)
        large_s.append(seconds)
    ratio = min(large_s) / max(min(small_s), 1e-6)
    assert ratio < 4 * SCALE, f"{SCALE} times the input takes {ratio:.0f} times as long"
    return result


def _timed(function, argument):
    """Return the processor time of one call, in seconds, without Python's garbage collection, and its result."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        result = function(argument)
        return time.process_time() - begun, result
    finally:
        gc.enable()
