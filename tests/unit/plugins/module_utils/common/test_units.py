# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.units import clock, duration_text, parse_duration


@pytest.mark.parametrize(
    "value, seconds",
    [
        (90, 90),
        ("90", 90),
        ("45s", 45),
        ("90m", 5400),
        ("48h", 172800),
        ("1d12h", 129600),
        ("1D12H", 129600),
        ("2:30:00", 9000),
        ("36:00:00", 129600),
        ("1-12:00:00", 129600),
        ("1d1h1m1s", 90061),
        (" 2h ", 7200),
        (0, 0),
    ],
)
def test_every_form_of_a_duration_is_understood(value, seconds):
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "2:30",
        "48x",
        "h",
        "-1h",
        -1,
        1.5,
        True,
        None,
        [],
        "1h30",
        "2:61:00",
        "1 h",
        "12h1d",
        "1e3",
        "\u0663h0",
    ],
)
def test_an_invalid_duration_is_refused(value):
    assert parse_duration(value) is None


def test_clock_times_may_exceed_a_day():
    assert clock(172800) == "48:00:00"
    assert clock(3725) == "1:02:05"


@pytest.mark.parametrize("seconds, text", [(172800, "48h"), (5400, "90m"), (45, "45s"), (3601, "3601s"), (0, "0s")])
def test_durations_are_written_in_their_largest_unit(seconds, text):
    assert duration_text(seconds) == text
    assert parse_duration(text) == seconds
