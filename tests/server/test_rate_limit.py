# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the limit on the rate of calls."""

import pytest
from glidein_demand.rate_limit import RateLimit, rate_limit_key

from conftest import TOKEN

CALL = {"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 1}


@pytest.fixture
def limited(new_service):
    return new_service(server={"max_requests_per_minute": 5})


def test_a_caller_over_the_limit_gets_429_and_the_time_to_retry(limited):
    assert [limited.post(CALL).status_code for _again in range(5)] == [200] * 5
    response = limited.post(CALL)
    assert (response.status_code, response.json["error"]["code"]) == (429, -32004)
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    page = limited.get("/")
    assert (page.status_code, page.mimetype) == (429, "text/plain")
    assert int(page.headers["Retry-After"]) >= 1


def test_a_minute_starts_with_its_first_call_and_is_removed_afterwards():
    now = [0.0]
    rate = RateLimit(2, lambda: now[0])
    seen = []
    for now[0], name in ((0, "a"), (10, "b"), (59, "a"), (59.5, "a"), (60, "a"), (60, "b"), (61, "b"), (200, "c")):
        seen.append(rate.hit(name))
    assert seen == [0, 0, 0, 1, 0, 0, 9, 0]
    assert len(rate._windows) == 1


def test_refused_calls_count_too():
    rate = RateLimit(5, lambda: 0.0)
    assert [rate.hit("a", calls) for calls in (4, 2, 1)] == [0, 60, 60]
    assert rate.refused == 2


def test_each_token_has_a_count_of_its_own(limited):
    for _again in range(6):
        limited.post(CALL)
    assert [limited.post(CALL, TOKEN).status_code for _again in range(6)] == [200] * 5 + [429]


def test_health_and_static_files_are_not_limited(limited):
    assert {limited.get("/healthz").status_code for _again in range(20)} == {503}
    assert {limited.get("/static/style.css").status_code for _again in range(20)} == {200}
    assert limited.post(CALL).status_code == 200


def test_every_call_of_a_batch_counts(limited):
    assert limited.post([CALL] * 6).status_code == 429
    assert limited.post([CALL] * 5, TOKEN).status_code == 200
    assert limited.post(CALL, TOKEN).status_code == 429


@pytest.mark.parametrize(
    ("token", "address", "counted"),
    [
        ("PSC", "192.0.2.1", "token/PSC"), ("", "192.0.2.1", "address/192.0.2.1"),
        ("", "2001:db8::1", "address/2001:db8::"),
        ("", "2001:db8::ffff", "address/2001:db8::"), ("", "fe80::1%eth0", "address/fe80::"),
        ("", "not an address", "address/not an address"),
    ],
)  # fmt: skip
def test_calls_that_are_counted_together(token, address, counted):
    assert rate_limit_key(token, address) == counted
