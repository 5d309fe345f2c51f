# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from conftest import NOW, TOKEN, group, site_report


def test_reports_of_a_site_are_removed_with_its_token(service):
    service.result("report", site_report(), TOKEN)
    service.result("report", site_report(site="B"), service.token("B"))
    assert service.recorder.delete_revoked() == []
    service.server.tokens.revoke("B")
    assert service.recorder.delete_revoked() == ["B"]
    assert list(service.server.reports.reports()) == ["PSC"]


def test_the_use_of_a_token_is_stored(service):
    service.get("/", TOKEN)
    service.recorder.work()
    assert service.server.tokens.rows()[0]["last_used"] == NOW // 3600 * 3600


def test_leases_of_a_site_are_released_with_its_token(service):
    service.read(group(5))
    claim = {"entries": {"q": {group()["id"]: 5}}, "ttl_s": 86400}
    service.result("lease", {"site": "B", **claim}, service.token("B"))
    service.server.tokens.revoke("B")
    assert service.recorder.delete_revoked() == ["B"]
    assert service.result("lease", {"site": "PSC", **claim}, TOKEN)["granted"] == {"q": {group()["id"]: 5}}
    assert [row["site"] for row in service.server.leases.rows()] == ["PSC"]
