# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the short-lived cache of a database value."""

import threading

import pytest
from glidein_demand.store import ttl_cache
from glidein_demand.store.ttl_cache import CachedValue


class Source:
    """A source that counts its loads and waits for `open` each time."""

    def __init__(self):
        self.loaded = 0
        self.loading = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def __call__(self):
        self.loading.set()
        self.open.wait(60)
        self.loaded += 1
        return self.loaded


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(ttl_cache.time, "monotonic", lambda: now[0])
    return now


def test_the_value_is_loaded_when_it_is_old(clock):
    kept = CachedValue(Source(), max_age_s=10)
    seen = []
    for clock[0] in (100, 104, 109, 110, 140):
        seen.append(kept.get())
    assert seen == [1, 1, 1, 2, 3]


def test_a_used_value_is_loaded_ahead_in_the_second_half_of_its_age(clock):
    source = Source()
    kept = CachedValue(source, max_age_s=10)
    kept.reload_ahead()
    assert source.loaded == 0  # no caller has requested it
    kept.get()
    loaded = []
    for clock[0] in (104, 106, 112, 112):
        kept.reload_ahead()
        loaded.append(source.loaded)
        kept.get()
    assert loaded == [1, 2, 3, 3]


def test_an_unused_value_is_loaded_once_more_and_then_no_longer(clock):
    source = Source()
    kept = CachedValue(source, max_age_s=10)
    kept.get()
    kept.get()
    for clock[0] in range(101, 200):
        kept.reload_ahead()
    assert source.loaded == 2


def test_no_caller_waits_while_the_value_is_loaded_ahead(clock):
    source = Source()
    kept = CachedValue(source, max_age_s=10)
    for _again in range(2):
        kept.get()
    clock[0] += 6
    source.open.clear()
    source.loading.clear()
    loader = threading.Thread(target=kept.reload_ahead)
    loader.start()
    source.loading.wait(60)
    assert kept.get() == 1
    source.open.set()
    loader.join()
    assert kept.get() == 2


def test_a_value_that_cannot_be_loaded_ahead_delays_no_other(clock):
    outcomes = iter([1])
    source = Source()
    broken, kept = CachedValue(lambda: next(outcomes), max_age_s=10), CachedValue(source, max_age_s=10)
    for value in (broken, kept):
        value.get()
        value.get()
    clock[0] += 6
    ttl_cache.reload_ahead([broken, kept])
    assert source.loaded == 2


def test_callers_wait_for_a_value_that_is_too_old(clock):
    source = Source()
    kept = CachedValue(source, max_age_s=10)
    kept.get()
    clock[0] += 11
    source.open.clear()
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(kept.get())) for _number in range(4)]
    for thread in threads:
        thread.start()
    source.open.set()
    for thread in threads:
        thread.join()
    assert seen == [2, 2, 2, 2]


def test_an_error_is_raised_and_the_next_caller_tries_again():
    outcomes = iter([OSError(), 5])

    def load():
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    kept = CachedValue(load)
    with pytest.raises(OSError):
        kept.get()
    assert kept.get() == 5
