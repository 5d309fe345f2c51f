# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of large replies, which are made once."""

import json

import pytest
from glidein_demand import result_cache
from glidein_demand.web import results
from glidein_demand.web.auth import ANONYMOUS
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, TOKEN, claim, group, site_report

CALL = {"jsonrpc": "2.0", "method": "get_demand", "params": {}}


@pytest.mark.parametrize(
    "change",
    [
        lambda service: service.read(group(6)),
        lambda service: service.server.pause.set("test", "test"),
        lambda service: service.result("lease", claim(2), TOKEN),
    ],
)
def test_a_change_of_demand_leases_or_pause_makes_a_new_reply(service, change):
    service.read(group(5))
    first = service.post({**CALL, "id": 1})
    change(service)
    assert service.post({**CALL, "id": 1}).data != first.data


def test_an_expired_lease_is_released(service):
    service.read(group(5))
    service.result("lease", claim(2, ttl_s=60), TOKEN)
    counts = []
    for service.now in (NOW + 59, NOW + 60):
        state = service.result("get_state")
        counts.append((service.result("get_demand")["groups"][0]["count"], state[0]["count"]))
    assert counts == [(3, 3), (5, 5)]


def test_demand_and_supply_are_plain_resources_too(service):
    service.read(group(5))
    service.result("report", site_report(), TOKEN)
    assert service.get("/demand", TOKEN).json == service.result("get_demand", token=TOKEN)
    assert service.get("/supply", TOKEN).json == service.result("get_supply", token=TOKEN)


def test_an_equal_request_reuses_the_result():
    made = []
    cache = result_cache.ResultCache(2)

    def make():
        made.append(1)
        return {"n": len(made)}, NOW + 10

    def get(key, now=NOW, source="one"):
        return cache.get(source, key, now, make).value["n"]

    assert [get("a") for _again in range(3)] == [1, 1, 1]
    assert get("a", NOW + 10) == 2
    for key in ("b", "c"):
        get(key)
    assert get("a") == 5  # the least recently used result was removed
    assert get("c", source="another") == 6


@pytest.mark.parametrize(
    ("held", "count", "leased"), [({}, 5, 0), ({"g": 2}, 3, 2), ({"g": 9}, 0, 5), ({"x": 9}, 5, 0)]
)
def test_jobs_that_others_hold_are_subtracted_and_shown_as_leased(held, count, leased):
    found = results.demand_for({"groups": [{"id": "g", "count": 5}], "as_of": NOW}, held, False)
    assert found["groups"] == [{"id": "g", "count": count, "leased": leased}]


def test_a_report_changes_nothing_in_the_kept_demand(service, monkeypatch):
    service.read(group(5))
    first = service.post({**CALL, "id": 1})
    dumped = []
    monkeypatch.setattr(result_cache, "dump", lambda value: dumped.append(value) or b"{}")
    service.result("report", site_report(), TOKEN)
    assert service.post({**CALL, "id": 1}).data == first.data
    assert dumped == []


def test_the_names_of_sites_without_leases_make_no_further_results(service, monkeypatch):
    service.read(group(5))
    first = service.post({**CALL, "id": 1})
    monkeypatch.setattr(result_cache, "dump", lambda _value: pytest.fail("made again"))
    for number in range(40):
        service.post({**CALL, "id": 1, "params": {"sites": [f"invented-{number}"]}})
    assert service.post({**CALL, "id": 1}).data == first.data


def test_a_result_of_a_schedd_keeps_the_supply(service):
    first = results.supply(service.server, ANONYMOUS)
    service.read(group(5))
    assert results.supply(service.server, ANONYMOUS) is first
    service.result("report", site_report(), TOKEN)
    assert results.supply(service.server, ANONYMOUS) is not first


@pytest.mark.parametrize("value", [2**64, -(2**70), "\ud800", {"a": ["\udfff", 10**400]}])
def test_large_numbers_and_lone_surrogates_are_valid_in_json(value):
    assert json.loads(result_cache.dump(value)) == value


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=50,
)


@given(_values, st.sampled_from([b"0", b"-7", b"null", b'"a"']))
def test_a_reply_has_the_value_and_the_id(value, identity):
    result = result_cache.JsonResult(value)
    assert json.loads(result.body) == value
    assert json.loads(result.reply(identity)) == {"jsonrpc": "2.0", "result": value, "id": json.loads(identity)}
