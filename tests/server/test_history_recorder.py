# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from glidein_demand import background

from conftest import TOKEN, group, site_report
from databases import becomes


def test_reports_of_a_site_are_removed_with_its_token(service):
    service.result("report", site_report(), TOKEN)
    service.result("report", site_report(site="B"), service.token("B"))
    assert service.recorder.delete_revoked() == []
    service.server.tokens.revoke("B")
    assert service.recorder.delete_revoked() == ["B"]
    assert list(service.server.reports.reports()) == ["PSC"]


def test_leases_of_a_site_are_released_with_its_token(service):
    service.read(group(5))
    claim = {"entries": {"q": {group()["id"]: 5}}, "ttl_s": 86400}
    service.result("lease", {"site": "B", **claim}, service.token("B"))
    service.server.tokens.revoke("B")
    assert service.recorder.delete_revoked() == ["B"]
    assert service.result("lease", {"site": "PSC", **claim}, TOKEN)["granted"] == {"q": {group()["id"]: 5}}
    assert [row["site"] for row in service.server.leases.rows()] == ["PSC"]


def test_the_use_of_a_token_is_written_in_the_background(service, monkeypatch):
    monkeypatch.setattr(background, "HISTORY_S", 0.01)
    service.result("get_state", token=TOKEN)
    service.server.start(thread for thread in background.threads(service.server) if thread.name == "history")
    assert becomes(lambda: service.server.tokens.rows()[0]["last_used"])
