# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from conftest import TOKEN, site_report


def test_what_a_site_reported_goes_with_its_token(service):
    service.result("report", site_report(), TOKEN)
    service.result("report", site_report(site="B"), service.token("B"))
    assert service.keeper.forget_revoked() == []
    service.parts.tokens.revoke("B")
    assert service.keeper.forget_revoked() == ["B"]
    assert list(service.parts.reports.reports()) == ["PSC"]
