# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of when the machine counts as standing still."""

import json
import subprocess
import sys
from pathlib import Path

from remote.standstills import common, summary

PROGRAM = Path(__file__).parent / "remote" / "standstills.py"


def test_a_machine_stands_still_while_all_of_its_processors_are_late():
    by_cpu = [[[1.0, 1.1], [3.0, 3.05]], [[1.02, 1.2], [5.0, 5.1]]]

    assert summary(by_cpu) == {"ms": 80.0, "longest_ms": 80.0}


def test_a_single_late_processor_is_only_busy():
    assert summary([[[1.0, 1.1]], []]) == {"ms": 0, "longest_ms": 0}


def test_a_long_lateness_meets_several_short_ones():
    assert common([[1, 5]], [[0, 2], [3, 4], [6, 7]]) == [[1, 2], [3, 4]]


def test_all_processors_are_watched_for_the_given_time():
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input='{"seconds": 0.3}',
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert set(json.loads(done.stdout)) == {"ms", "longest_ms", "real_time"}
