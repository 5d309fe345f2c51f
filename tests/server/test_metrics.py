# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of GET /metrics."""

import pytest
from glidein_demand.pool.schedds import Starts
from glidein_demand.web import metrics
from prometheus_client.parser import text_string_to_metric_families

from conftest import NOW, TOKEN, ended_glidein, group, reported_entry, site_report, summaries_of


def samples(service):
    """Return {(name, sorted labels): value}, as Prometheus would read it."""
    families = text_string_to_metric_families(service.get("/metrics").text)
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}


def test_demand_leases_and_sites_have_metrics(service):
    service.read(group(5, cpus=2), group(7, memory_mb=4096))
    service.result("report", site_report(), TOKEN)
    service.result("lease", {"site": "PSC", "entries": {"RM": {group(cpus=2)["id"]: 3}}}, TOKEN)
    found = samples(service)
    assert found[("glidein_demand_idle_jobs",)] == 12
    assert found[("glidein_demand_idle_cores",)] == 17
    assert found[("glidein_demand_queue_read_timestamp_seconds",)] == NOW
    assert found[("glidein_demand_leased_jobs", ("site", "PSC"))] == 3
    assert found[("glidein_site_queued", ("entry", "RM"), ("site", "PSC"))] == 1
    assert found[("glidein_site_running", ("entry", "RM"), ("site", "PSC"))] == 2
    assert found[("glidein_site_report_timestamp_seconds", ("site", "PSC"))] == NOW
    assert found[("glidein_demand_rpc_calls_total", ("method", "report"), ("outcome", "ok"))] == 1
    assert found[("glidein_demand_schedds", ("state", "answered"))] == 1


def test_unknown_values_have_no_series(service):
    service.result("report", site_report(entries=[reported_entry(queued=None)]), TOKEN)
    names = {key[0] for key in samples(service)}
    assert "glidein_site_queued" not in names
    assert "glidein_demand_queue_read_timestamp_seconds" not in names
    assert "glidein_site_credential_expiry_timestamp_seconds" not in names


def test_errors_of_a_site_and_of_its_entries_are_metrics(service):
    entries = [reported_entry(), reported_entry(shape="small", error="refused"), reported_entry(entry="other")]
    service.result("report", site_report(entries=entries, error="login needed", orphans=2), TOKEN)
    text = service.get("/metrics").text
    assert 'glidein_site_report_error{site="PSC"} 1.0' in text
    assert 'glidein_site_entry_error{entry="RM",site="PSC"} 1.0' in text
    assert 'glidein_site_entry_error{entry="other",site="PSC"} 0.0' in text
    assert 'glidein_site_orphans{site="PSC"} 2.0' in text


def test_the_server_is_healthy_while_the_demand_is_recent(service):
    assert "glidein_demand_healthy 0.0" in service.get("/metrics").text
    service.read(group(1))
    assert "glidein_demand_healthy 1.0" in service.get("/metrics").text
    service.now += service.settings.max_age_seconds + 1
    assert "glidein_demand_healthy 0.0" in service.get("/metrics").text
    assert service.get("/healthz").status_code == 503


@pytest.mark.parametrize(("jobs_started", "wait_s"), [(4, 195), (0, None)])
def test_the_wait_is_the_mean_of_the_jobs_that_started(service, jobs_started, wait_s):
    service.server.pool_state.store_starts(Starts(NOW, jobs_started, 195 * jobs_started))
    assert samples(service).get(("glidein_demand_job_wait_seconds",)) == wait_s


def test_callers_cannot_make_series_up(service):
    for name in ("nonsense", "x" * 100, "get_state"):
        service.call(name)
    found = samples(service)
    assert found[("glidein_demand_rpc_calls_total", ("method", "other"), ("outcome", "error"))] == 2
    assert {dict(key[1:])["method"] for key in found if key[0] == "glidein_demand_rpc_calls_total"} == {
        *metrics.METHODS, "other"
    }  # fmt: skip


def test_the_number_of_entries_is_bounded_and_the_rest_is_counted(service, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_SERIES", 2)
    summaries = summaries_of(*(ended_glidein(number, entry=f"q{number}") for number in range(4)))
    entries = [reported_entry(entry=f"q{number}") for number in (0, 5)]
    service.result("report", site_report(entries=entries, summaries=summaries), TOKEN)
    found = samples(service)
    series = {name: {dict(key[1:]).get("entry") for key in found if key[0] == name} for name, *_labels in found}
    assert series["glidein_site_jobs_total"] == {"q0", "q1"}
    assert series["glidein_site_queued"] == {"q0"}
    assert found[("glidein_demand_series_left_out",)] == 3


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/history", "/demand"])
def test_no_answer_may_be_kept_or_framed_or_guessed(service, path):
    headers = service.get(path).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]


def test_static_files_may_be_kept_for_a_while(service):
    first = service.get("/static/style.css")
    assert "max-age=300" in first.headers["Cache-Control"]
    assert service.get("/static/style.css", **{"If-None-Match": first.headers["ETag"]}).status_code == 304
