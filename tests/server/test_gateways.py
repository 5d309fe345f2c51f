# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gateways are no part of the demand, and have a table of their own."""

from glidein_demand.pool import gateways, schedds
from glidein_demand.web import table_rows

NOW = 1_000_000


def ad(name="gateway-psc@", **more):
    return {
        "Name": name,
        "MyAddress": "<1.2.3.4:9618>",
        "is_glidein": True,
        "GLIDEIN_Site": "psc",
        "AuthenticatedIdentity": "gateway-psc@pool",
        "CondorVersion": "$CondorVersion: 23.9.6 2026-07-12 PackageID: 1 $",
        "GatewayJobsIdle": 3,
        "GatewayJobsRunning": 2,
        "GatewayJobsHeld": 0,
        "LastHeardFrom": NOW,
        **more,
    }


def row(**more):
    return {**gateways.from_ads([ad()])[0], **more}


def test_a_gateway_is_not_a_schedd_of_the_pool():
    pool = {"Name": "cm", "MyAddress": "<5.6.7.8:9618>", "AuthenticatedIdentity": "condor@pool"}
    assert [found["name"] for found in schedds.from_ads([ad(), pool])] == ["cm"]
    assert [found["name"] for found in gateways.from_ads([ad(), pool])] == ["gateway-psc@"]


def test_a_gateway_cannot_claim_to_be_a_schedd_or_another_site():
    liar = ad("cm", is_glidein=False, GLIDEIN_Site="other")
    assert schedds.from_ads([liar]) == []
    assert gateways.from_ads([liar])[0]["site"] == "psc"


def test_the_ad_of_a_gateway():
    assert gateways.from_ads([ad(LastHeardFrom=1, CondorVersion="old"), ad()]) == [
        {
            "name": "gateway-psc@",
            "site": "psc",
            "version": "23.9.6",
            "idle": 3,
            "running": 2,
            "held": 0,
            "last_contact": NOW,
        }
    ]


def test_an_ad_without_counts_or_with_invalid_values():
    ads = [{"Name": "g", "is_glidein": True, "GatewayJobsIdle": -1, "GatewayJobsRunning": True, "CondorVersion": 5}]
    assert gateways.from_ads([*ads, {"is_glidein": True}]) == [
        {"name": "g", "site": "", "version": "", "idle": None, "running": None, "held": None, "last_contact": None}
    ]


def test_a_gateway_that_the_collector_has_lost_is_gone_and_later_forgotten():
    known = gateways.merge((), [row()], NOW, 600)
    gone = gateways.merge(known, [], NOW + 100, 600)
    assert [found["state"] for found in gateways.described(gone, NOW + 100)] == ["gone"]
    assert gateways.merge(gone, [], NOW + 600, 600) == ()
    back = gateways.merge(gone, [row()], NOW + 100, 600)
    assert [found["state"] for found in gateways.described(back, NOW + 100)] == ["running"]


def test_a_gateway_without_a_recent_ad_is_late():
    known = gateways.merge((), [row()], NOW, 600)
    states = [gateways.described(known, NOW + seconds)[0]["state"] for seconds in (300, 301)]
    assert states == ["running", "late"]
    assert "gone" not in gateways.described(known, NOW)[0]


def test_the_row_of_the_page():
    shown = table_rows.gateway_row({**row(idle=None), "state": "late"}, NOW + 400)
    assert (shown["idle"], shown["running"], shown["late"], shown["state"]) == ("–", "2", True, "late")
