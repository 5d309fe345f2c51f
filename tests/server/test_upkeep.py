# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from glidein_demand.pool.schedds import Starts
from sqlalchemy import text

from conftest import NOW, TOKEN, group, site_report


def test_the_data_of_a_site_is_removed_with_its_token(service):
    service.read(group(5))
    claim = {"entries": {"q": {group()["id"]: 5}}, "ttl_s": 86400, "deployment": "lab"}
    token = service.token("B")
    service.result("lease", {"site": "B", **claim}, token)
    for site, secret in (("PSC", TOKEN), ("B", token)):
        service.result("report", site_report(site=site), secret)
    service.upkeep.delete_revoked()
    assert set(service.server.reports.reports()) == {"B", "PSC"}
    service.server.tokens.revoke("B")
    service.upkeep.delete_revoked()
    assert list(service.server.reports.reports()) == ["PSC"]
    assert service.server.leases.rows() == []
    with service.server.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM site_owner")).scalar() == 0


def test_the_use_of_a_token_is_stored(service):
    service.get("/", TOKEN)
    service.upkeep.work()
    assert service.server.tokens.rows()[0]["last_used"] == NOW // 3600 * 3600


def test_after_a_restart_groups_are_divided_by_the_same_attributes(new_service):
    service = new_service()
    service.result("get_demand", {"attributes": ["ProjectName"]}, TOKEN)
    service.upkeep.work()
    assert new_service().server.requested_attributes.names() == ["ProjectName"]


def test_old_data_is_averaged_and_deleted_once_an_hour(service):
    glideins = service.server.glideins
    for registered in ([["PSC", "RM", "node", "1_1", NOW, NOW]], []):
        glideins.registered(registered, NOW)
    left = []
    for service.now in (NOW, NOW + 3 * 86400, NOW + 3 * 86400 + 60):
        service.upkeep.work()
        with service.server.database.read() as connection:
            queries = ("SELECT count(*) FROM glidein", "SELECT count(*) FROM history WHERE level = 1")
            left.append([connection.execute(text(query)).scalar() for query in queries])
    assert left == [[1, 0], [0, 1], [0, 1]]


def test_the_starts_of_jobs_are_recorded_while_their_query_is_recent(service):
    service.server.pool_state.store_starts(Starts(NOW, 4, 780))
    service.upkeep.record()
    service.now += service.settings.max_age_seconds + 300
    service.upkeep.record()
    series = service.server.history.pool_series(NOW - 300, service.now + 1)
    assert (series["jobs_started"][0], series["start_wait_s"][0]) == (4, 780)
    assert (series["jobs_started"][-1], series["start_wait_s"][-1]) == (None, None)
