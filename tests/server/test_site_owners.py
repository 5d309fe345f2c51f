# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that a site name belongs to one deployment, because two would order glideins for the same jobs."""

import pytest
from glidein_demand.store.site_owners import LEAST_S, OwnedError, SiteOwners
from sqlalchemy import text

from conftest import NOW, TOKEN, group, site_report
from databases import Clock


def claim(jobs=6, **changes):
    return {"site": "PSC", "entries": {"RM": {group()["id"]: jobs}}, **changes}


@pytest.mark.parametrize("method", ["lease", "report"])
def test_a_second_deployment_with_the_same_site_name_is_refused_with_the_remedy(service, method):
    service.read(group(6))
    service.result("lease", claim(deployment="lab"), TOKEN)
    params = claim() if method == "lease" else site_report()
    error = service.error(method, {**params, "deployment": "other"}, TOKEN)
    assert (error["code"], error["message"]) == (-32006, "Used by another deployment")
    assert "site PSC belongs to the deployment 'lab', and this is 'other'" in error["data"]
    assert "Give each deployment its own glidein_site and glidein_demand_token" in error["data"]
    assert [(row["site"], row["jobs"]) for row in service.server.leases.rows()] == [("PSC", 6)]
    assert service.server.reports.reports() == {}


def test_the_deployment_that_owns_a_site_is_accepted(service):
    service.read(group(6))
    for _cycle in range(3):
        assert service.result("lease", claim(deployment="lab"), TOKEN)["granted"]["RM"] == {group()["id"]: 6}
        assert service.result("report", site_report(deployment="lab"), TOKEN) == {"accepted": True}
        service.now += 600


def test_two_deployments_with_a_site_each_share_the_demand(service):
    service.read(group(6))
    other = service.token("PSC-other")
    service.result("lease", claim(deployment="lab"), TOKEN)
    granted = service.result("lease", claim(site="PSC-other", deployment="other"), other)["granted"]
    assert granted == {"RM": {group()["id"]: 0}}


def test_a_caller_that_names_no_deployment_is_not_checked(service):
    service.read(group(6))
    service.result("lease", claim(deployment="lab"), TOKEN)
    service.result("lease", claim(), TOKEN)
    assert service.result("report", site_report(), TOKEN) == {"accepted": True}


def test_a_deployments_name_is_checked(service):
    service.read(group(6))
    assert "deployment: expected a name" in service.error("lease", claim(deployment="a b"), TOKEN)["data"]


def test_a_new_token_frees_the_name_at_once(service):
    service.read(group(6))
    service.result("lease", claim(deployment="lab"), TOKEN)
    service.now += 1
    service.server.tokens.install({"PSC": "another-secret-of-the-site"})
    service.result("lease", claim(deployment="other"), "another-secret-of-the-site")


def test_a_site_with_a_revoked_token_has_no_owner(service):
    service.read(group(6))
    service.result("lease", claim(deployment="lab"), TOKEN)
    service.server.tokens.revoke("PSC")
    assert service.recorder.delete_revoked() == ["PSC"]
    with service.server.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM site_owner")).scalar() == 0


@pytest.mark.parametrize("ttl_s", [60, 3 * LEAST_S])
def test_a_name_is_free_some_time_after_the_last_call_and_not_before_its_leases_expire(database, ttl_s):
    clock = Clock(NOW)
    owners = SiteOwners(database, clock)
    owners.use("PSC", "lab", ttl_s, 0)
    clock.now += max(ttl_s, LEAST_S)
    with pytest.raises(OwnedError, match="the name is free in 15 min"):
        owners.use("PSC", "other", ttl_s, 0)
    clock.now += 900
    owners.use("PSC", "other", ttl_s, 0)
    with pytest.raises(OwnedError, match="belongs to the deployment 'other'"):
        owners.use("PSC", "lab", ttl_s, 0)


def test_a_lease_for_longer_keeps_the_name_for_longer(database):
    clock = Clock(NOW)
    owners = SiteOwners(database, clock)
    owners.use("PSC", "lab", 60, 0)
    owners.use("PSC", "lab", 86400, 0)
    owners.use("PSC", "lab", 60, 0)
    clock.now += 86400 - 1
    with pytest.raises(OwnedError):
        owners.use("PSC", "other", 60, 0)


def test_a_sites_owner_survives_a_restart_and_an_older_database_gets_the_table(new_service):
    before = new_service()
    with before.server.database.begin() as connection:
        connection.execute(text("DROP TABLE site_owner"))
    before.close()
    service = new_service()
    service.read(group(6))
    service.result("lease", claim(deployment="lab"), TOKEN)
    restarted = new_service()
    restarted.read(group(6))
    assert restarted.error("lease", claim(deployment="other"), TOKEN)["code"] == -32006
