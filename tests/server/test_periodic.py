# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the thread of periodic work."""

import threading

import pytest
from glidein_demand.periodic import Every


def run(work, calls):
    """Run `work` so often, every millisecond."""
    numbers = []

    def count():
        numbers.append(1)
        if len(numbers) == calls:
            thread.stop()
        work(len(numbers))

    thread = Every("the work", 0.001, count)
    thread.start()
    thread.join(60)
    assert len(numbers) == calls


@pytest.mark.parametrize(("error", "traceback"), [(OSError, False), (RuntimeError, True)])
def test_a_failure_is_logged_once_and_the_work_continues(caplog, error, traceback):
    def fail(number):
        if number not in (3, 4):
            raise error("the  reason")

    run(fail, 6)
    assert [record.getMessage() for record in caplog.records] == [f"the work failed: {error.__name__}: the reason"] * 2
    assert [bool(record.exc_info) for record in caplog.records] == [traceback] * 2


def test_the_first_call_comes_after_the_delay():
    called = threading.Event()
    thread = Every("the work", 60, called.set, delay_s=60)
    thread.start()
    assert not called.wait(0.1)
    thread.stop()
    thread.join(60)
    assert not called.is_set()
