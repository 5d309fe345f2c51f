# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of large replies: made once, compressed if the client accepts it, not sent if the client has them."""

import gzip
import json

import pytest
from glidein_demand import result_cache
from glidein_demand.web import results
from glidein_demand.web.auth import ANONYMOUS
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, TOKEN, group, site_report

CALL = {"jsonrpc": "2.0", "method": "get_demand", "params": {}}


@pytest.mark.parametrize("identity", [0, 1, 2, -7, 3.5, "abc", 'a"b\\', "ü", None, 10**400])
@pytest.mark.parametrize("accept", ["gzip", "identity", "gzip;q=0", "br, gzip;q=0.5", ""])
def test_every_id_comes_back_in_every_encoding(service, identity, accept):
    service.read(group(5))
    response = service.post({**CALL, "id": identity}, headers={"Accept-Encoding": accept})
    compressed = response.headers.get("Content-Encoding") == "gzip"
    assert compressed == (accept in ("gzip", "br, gzip;q=0.5"))
    body = json.loads(gzip.decompress(response.data) if compressed else response.data)
    assert body == {"jsonrpc": "2.0", "result": service.result("get_demand"), "id": identity}
    assert "Accept-Encoding" in response.headers["Vary"]


def test_a_caller_with_the_current_reply_gets_304(service):
    service.read(group(5))
    first = service.post({**CALL, "id": 1})
    again = service.post({**CALL, "id": 2}, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert service.get("/demand", **{"If-None-Match": first.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize(
    "change",
    [
        lambda service: service.read(group(6)),
        lambda service: service.server.pause.set("test", "test"),
        lambda service: service.result("lease", {"site": "PSC", "entries": {"RM": {group()["id"]: 2}}}, TOKEN),
    ],
)
def test_a_change_of_demand_leases_or_pause_makes_a_new_reply(service, change):
    service.read(group(5))
    first = service.post({**CALL, "id": 1})
    change(service)
    again = service.post({**CALL, "id": 1}, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 200
    assert again.data != first.data


def test_a_reply_for_callers_with_a_token_reaches_no_other_caller(service):
    service.read(group(5, requirements='Owner == "alice"'))
    with_token = service.post({**CALL, "id": 1}, TOKEN)
    without = service.post({**CALL, "id": 1}, headers={"If-None-Match": with_token.headers["ETag"]})
    assert without.status_code == 200
    assert "alice" not in without.text
    assert "Authorization" in with_token.headers["Vary"]
    assert "private" in with_token.headers["Cache-Control"]


def test_demand_and_supply_are_plain_resources_too(service):
    service.read(group(5))
    service.result("report", site_report(), TOKEN)
    assert service.get("/demand", TOKEN).json == service.result("get_demand", token=TOKEN)
    assert service.get("/supply", TOKEN).json == service.result("get_supply", token=TOKEN)


def test_a_large_result_in_a_batch_is_whole(service):
    service.read(group(5))
    found = service.post([{**CALL, "id": "a"}, {**CALL, "id": "b", "method": "get_supply"}]).json
    assert [part["id"] for part in found] == ["a", "b"]
    assert found[0]["result"] == service.result("get_demand")


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
    found = result_cache.demand_for({"groups": [{"id": "g", "count": 5}], "as_of": NOW}, held, False)
    assert found["groups"] == [{"id": "g", "count": count, "leased": leased}]


@pytest.mark.parametrize("path", ["/", "/static/style.css", "/static/page.js"])
def test_the_page_and_its_files_are_compressed_for_clients_that_accept_it(service, path):
    plain = service.client.get(path)
    packed = service.client.get(path, headers={"Accept-Encoding": "gzip"})
    assert (plain.headers.get("Content-Encoding"), packed.headers["Content-Encoding"]) == (None, "gzip")
    assert gzip.decompress(packed.data) == plain.data
    assert "Accept-Encoding" in plain.headers["Vary"] and "Accept-Encoding" in packed.headers["Vary"]


def test_a_static_file_that_is_there_already_is_not_sent_again(service):
    etag = service.client.get("/static/style.css", headers={"Accept-Encoding": "gzip"}).headers["ETag"]
    again = service.client.get("/static/style.css", headers={"Accept-Encoding": "gzip", "If-None-Match": etag})
    assert (again.status_code, again.data) == (304, b"")


def test_an_expired_lease_is_released(service):
    service.read(group(5))
    service.result("lease", {"site": "PSC", "entries": {"RM": {group()["id"]: 2}}, "ttl_s": 60}, TOKEN)
    counts = []
    for service.now in (NOW + 59, NOW + 60):
        counts.append(service.result("get_demand")["groups"][0]["count"])
    assert counts == [3, 5]


def test_a_report_changes_nothing_in_the_kept_demand(service, monkeypatch):
    service.read(group(5))
    first = service.post({**CALL, "id": 1})
    dumped = []
    monkeypatch.setattr(result_cache, "dump", lambda value: dumped.append(value) or b"{}")
    service.result("report", site_report(), TOKEN)
    assert service.post({**CALL, "id": 1}).data == first.data
    assert dumped == []


def test_sites_with_leases_have_results_of_their_own(service):
    service.read(group(5))
    service.result("lease", {"site": "PSC", "entries": {"RM": {group()["id"]: 2}}}, TOKEN)
    counts = {
        sites: service.result("get_demand", {"sites": list(sites)})["groups"][0]["count"]
        for sites in ((), ("PSC",), ("Cedar",), ("Cedar", "PSC"))
    }
    assert counts == {(): 3, ("PSC",): 5, ("Cedar",): 3, ("Cedar", "PSC"): 5}


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


@given(_values, st.sampled_from(["0", "-7", "null", '"a"', '"' + "x" * 500 + '"']))
def test_a_reply_has_the_value_and_the_id_compressed_or_not(value, identity):
    result = result_cache.JsonResult(value)
    plain = result.reply(identity, compress=False)
    assert json.loads(plain) == {"jsonrpc": "2.0", "result": value, "id": json.loads(identity)}
    for _again in range(2):
        assert gzip.decompress(result.reply(identity, compress=True)) == plain
    assert gzip.decompress(result.reply(None, compress=True)) == result.reply(None, compress=False) == result.body
