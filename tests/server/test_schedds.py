# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the schedds in the collector: those with the pool's jobs, and gateways, which are no part of the demand."""

from glidein_demand.pool import schedds
from glidein_demand.web import table_rows

from conftest import NOW

STARTS = {"RecentJobsStarted": 4, "RecentJobsAccumTimeToStart": 100}
ROW_OF_POOL = {"jobs_started": 4, "start_wait_s": 100}


def ad(name="a", **values):
    return {"Name": name, "MyAddress": f"<{name}>", "LastHeardFrom": 10, **STARTS, **values}


def gateway(name="gateway-psc@", **values):
    return {
        **ad(name), "is_glidein": True, "GLIDEIN_Site": "psc", "AuthenticatedIdentity": "gateway-psc@pool",
        "CondorVersion": "$CondorVersion: 23.9.6 2026-07-12 PackageID: 1 $",
        "GatewayJobsIdle": 3, "GatewayJobsRunning": 2, "GatewayJobsHeld": 0, "LastHeardFrom": NOW, **values,
    }  # fmt: skip


ROW = {
    "name": "gateway-psc@", "site": "psc", "version": "23.9.6", "idle": 3, "running": 2, "held": 0, "last_contact": NOW,
}  # fmt: skip


def names(found):
    return [schedd["name"] for schedd in found]


def test_each_schedd_has_the_address_of_its_newest_ad():
    ads = [
        ad("b", MyAddress="<new>", LastHeardFrom=20),
        ad("b"),
        ad(CondorVersion="v"),
        {"Name": "x"},
        {"MyAddress": "<y>"},
    ]
    assert schedds.of_pool(ads) == [
        {"name": "a", "address": {"Name": "a", "MyAddress": "<a>", "CondorVersion": "v"}, **ROW_OF_POOL},
        {"name": "b", "address": {"Name": "b", "MyAddress": "<new>"}, **ROW_OF_POOL},
    ]


def test_the_starts_of_jobs_are_summed_over_the_schedds_whose_ads_have_them():
    missing = ad("b", RecentJobsAccumTimeToStart="x")
    rows = schedds.of_pool([ad("a"), missing, gateway(**STARTS), ad("c", RecentJobsStarted=1)])
    assert schedds.starts(rows, NOW) == (NOW, 5, 200)
    assert schedds.starts(schedds.of_pool([missing]), NOW) is None


def test_without_names_all_schedds_are_selected():
    known = schedds.of_pool([ad("a"), ad("B"), ad("c")])
    assert names(schedds.select(known, ())[0]) == ["B", "a", "c"]
    chosen, missing = schedds.select(known, ("b", "gone"))
    assert (names(chosen), missing) == (["B"], ["gone"])


def test_a_gateway_is_not_a_schedd_of_the_pool_and_cannot_claim_to_be_one_or_another_site():
    ads = [
        gateway(),
        ad("cm", AuthenticatedIdentity="condor@pool"),
        gateway("x", is_glidein=False, GLIDEIN_Site="other"),
    ]
    assert names(schedds.of_pool(ads)) == ["cm"]
    assert [(row["name"], row["site"]) for row in schedds.gateways(ads)] == [("gateway-psc@", "psc"), ("x", "psc")]


def test_the_newest_ad_of_a_gateway_counts_and_invalid_values_are_unknown():
    assert schedds.gateways([gateway(LastHeardFrom=1, CondorVersion="old"), gateway()]) == [ROW]
    ads = [{"Name": "g", "is_glidein": True, "GatewayJobsIdle": -1, "GatewayJobsRunning": True, "CondorVersion": 5}]
    assert schedds.gateways([*ads, {"is_glidein": True}]) == [
        {"name": "g", "site": "", "version": "", "idle": None, "running": None, "held": None, "last_contact": None}
    ]


def test_a_gateway_is_late_without_a_recent_ad_then_gone_and_later_forgotten():
    def states(known, rows, after_s):
        return [row["state"] for row in schedds.merge_gateways(known, rows, NOW + after_s, 600)]

    assert [states((), [ROW], seconds) for seconds in (300, 301)] == [["running"], ["late"]]
    known = schedds.merge_gateways((), [ROW], NOW, 600)
    assert states(known, [], 100) == ["gone"]
    assert states(known, [], 600) == []
    assert states(schedds.merge_gateways(known, [], NOW + 100, 600), [ROW], 100) == ["running"]
    assert set(known[0]) == {*ROW, "state"}


def test_the_row_of_the_page():
    shown = table_rows.gateway_row({**ROW, "idle": None, "state": "late"}, NOW + 400)
    assert (shown["idle"], shown["running"], shown["late"], shown["state"]) == ("–", "2", True, "late")
