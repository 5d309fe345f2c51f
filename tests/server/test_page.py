# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the rendered page: order, access to data, and the escaping of received texts."""

import collections
import re
from pathlib import Path

import pytest
from glidein_demand import web

from page_data import (
    HOSTILE,
    NOW,
    TURNED,
    Page,
    demand,
    entry,
    group,
    many,
    render,
    report,
    reports,
    supplied,
    supply,
)  # fmt: skip

PAUSED = {"paused": True, "since": NOW - 300, "reason": "downtime", "by": "root"}


def page_with_text(text):
    """Return data of a page in which every received text is `text`."""
    asked = group(text, first_job=text, requirements=text, attributes={text: text}, users={text: 1})
    failed = [{"name": text, "error": text, "as_of": None}]
    rows = [
        entry(text, text, error=text, reason=text, sick=1, sick_reasons=[text]),
        entry("other", text, error=text, reason=text),
    ]
    unreadable = [{"schedd": text, "count": 1, "first_job": text, "attribute": text, "error": text}]
    return {
        "demand": demand(asked, schedds={"answered": [], "failed": failed}, unreadable=unreadable),
        "supply": supply(supplied(text, text, text), error=text, problems=[text]),
        "reports": {text: report(text, *rows, error=text, unserved=[{"group": text, "count": 1, "reason": text}])},
        "clients": [(text, {"received": 0, "metrics": {"glideins_idle": {text: 1}}})],
        "pause": {"paused": True, "since": NOW, "reason": text, "by": text},
        "caller_has_token": True,
    }  # fmt: skip


REASON = 'main/core: Requirements want TARGET.X == "<b>"'


def not_served(**changes):
    rows = [{"group": "aaaa", "count": 30, "reason": REASON}, {"group": "gone", "count": 7, "reason": "of old"}]
    reports_by_site = {"PSC": report("PSC", unserved=rows), "Cedar": report("Cedar", unserved=rows[:1])}
    return render(**{"reports": reports_by_site, "demand": demand(group("aaaa")), "caller_has_token": True, **changes})


def test_the_page_shows_why_jobs_are_not_served_by_group_and_by_site():
    html = not_served()
    words = " ".join(Page(html).text.split())
    assert "30 not served" in words
    assert f"Not served Cedar, PSC: {REASON}" in words
    assert words.count(f"Not served: 30 jobs in 1 group: {REASON}") == 2
    assert "of old" not in words  # a group that no longer exists
    assert "<b>" not in html


def test_callers_without_a_token_see_how_many_jobs_are_not_served_and_not_why():
    words = Page(not_served(caller_has_token=False)).text
    assert "30 not served" in words
    assert "Requirements want" not in words


def test_an_old_report_shows_no_unserved_jobs():
    silent = report("PSC", unserved=[{"group": "aaaa", "count": 30, "reason": REASON}], received=NOW - 90000)
    assert "not served" not in not_served(reports={"PSC": silent})


@pytest.mark.parametrize(
    ("data", "shown", "hidden"),
    [
        ({}, ["No problems", "Queued, running and held glideins are as of each site's last report."], ["Paused"]),
        (
            {"pause": PAUSED},
            ["Paused: no glidein is submitted", "To resume: glidein-demand resume", "No other problems",
             "Since 2026-11-20 21:42:53 UTC (5 min ago), by root. Reason: downtime"],
            ["No problems"],
        ),
        (
            {"reports": reports(report(error="squeue: exit status 1"))},
            ["Site error. Site PSC: squeue: exit status 1. Correct the error.", "1 problem"],
            ["No problems"],
        ),
        # A note is not counted as a problem.
        ({"demand": demand(waiting_for_limit=[{"schedd": "cm", "count": 1, "limit": 1}])},
         ["No problems", "MAX_JOBS_RUNNING"], []),
        # Before the first query, no zero is shown.
        ({"demand": demand(as_of=None), "supply": supply(as_of=None), "reports": {}},
         ["Demand: unknown", "No site has reported, and no glidein is registered."], []),
    ],
)  # fmt: skip
def test_problems_a_pause_and_unknown_data_are_stated(data, shown, hidden):
    words = " ".join(Page(render(**data)).text.split())
    assert [text for text in shown if text not in words] == []
    assert [text for text in hidden if text in words] == []


def test_problems_come_first_then_demand_then_sites_then_charts():
    html = render(**page_with_text("x"))
    headings = ["<h2>", 'id="problems-title"', "demand-title", "sites-title", "clients-title", "charts-title"]
    order = [html.index(heading) for heading in headings]
    assert order == sorted(order)


def test_the_numbers_of_a_group_and_of_a_site_are_in_one_row_each():
    page = Page(render(demand=demand(group("f00d", 1234, cpus=3, gpus=1, over_limit=5))))
    assert page.cells("1,234") == [
        ["1,234", "0", "5", "3", "2 GiB", "1,000 MiB", "1", "2 h", "12.0", "f00d"],
    ]  # fmt: skip
    assert page.cells("PSC") == [["PSC", "RM node", "1", "2", "2", "0", "1", "28 of 56", "–", "–", "0 s ago"]]


@pytest.mark.parametrize("table", ["groups", "sites"])
def test_on_a_phone_each_number_has_the_name_of_its_column(table):
    """Assert that the cells have labels, which the style sheet shows because it hides the headings."""
    html, style = render(), (Path(web.__file__).parent / "static" / "style.css").read_text()
    head = re.search(rf'<table class="{table}".*?<thead.*?</thead>', html, re.DOTALL).group()
    columns = dict(enumerate(re.findall(r"<th [^>]*>([^<]+)</th>", head), 1))
    labels = re.findall(rf'\.{table} [^{{]*:nth-child\((\d+)\)::before {{ content: "([^"]+) "; }}', style)
    named = {int(number): name for number, name in labels}
    first = {"groups": 1, "sites": 3}[table]  # the names of a site and its entry need no label
    assert named == {number: name for number, name in columns.items() if number >= first}


@pytest.mark.parametrize(
    ("rows", "words"),
    [(["RM/node", "RM/core"], "1 entry, 2 shapes"), (["RM/node", "EM/node"], "2 entries"),
     (["RM/node", "RM/core", "EM/node"], "2 entries, 3 shapes")],
)  # fmt: skip
def test_entries_and_their_shapes_are_counted_apart(rows, words):
    page = Page(render(reports=reports(report("PSC", *(entry(*row.split("/")) for row in rows)))))
    assert page.cells("PSC")[0][1] == words


def test_why_stands_below_the_numbers_of_a_site():
    page = Page(
        render(reports=reports(report("PSC", entry(sick=1, sick_reasons=["QOSGrpCpuLimit"], error="sbatch: no"))))
    )
    assert [row for row in page.cells("") if len(row) == 2] == [["", "sbatch: no Held: QOSGrpCpuLimit. 28 idle jobs"]]


def test_every_link_inside_the_page_leads_to_something():
    page = Page(render(**many(sites=60), pause=PAUSED, can_report=False))
    targets = [link[1:] for link in page.values("href") if link.startswith("#")]
    assert len(targets) > 10
    assert set(targets) <= set(page.values("id"))


@pytest.mark.parametrize(
    "data", [{}, many(sites=60, groups=60), page_with_text(HOSTILE)], ids=["few", "many", "hostile"]
)
def test_no_id_is_used_twice(data):
    ids = collections.Counter(Page(render(**data)).values("id"))
    assert [name for name, count in ids.items() if count > 1] == []


def test_hostile_text_is_shown_as_text():
    html = render(**page_with_text(HOSTILE))
    page = Page(html)
    assert "img" not in [tag for tag, _attributes in page.tags]
    assert len(page.named("script")) == len(Page(render()).named("script"))
    assert not [name for _tag, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.text.count(HOSTILE) > 15
    assert "49" not in page.text.replace(HOSTILE, "")  # Jinja evaluated none of it as a template


def test_received_texts_cannot_reorder_or_hide_other_text():
    html = render(**page_with_text(TURNED))
    assert "abc\\u202edef\\u0000\\u200b\\ud800" in html
    assert not {"\u202e", "\u0000", "\u200b"} & set(html)
    html.encode()


def test_the_page_needs_no_inline_script_or_style_and_loads_nothing_from_elsewhere():
    page = Page(render(**page_with_text("x")))
    assert page.values("style") == []
    assert "style" not in [tag for tag, _attributes in page.tags]
    assert all(script.get("src", "").startswith("/static/") for script in page.named("script"))
    links = page.values("href") + page.values("src")
    assert [link for link in links if not link.startswith(("/", "#", "?")) or link.startswith("//")] == []


def test_tables_have_captions_and_every_heading_has_a_scope():
    page = Page(render(**many(sites=60, groups=60), clients=[("a", {"received": NOW, "metrics": {}})]))
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("table") == tags.count("caption") >= 5
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.named("th"))


def test_times_are_machine_readable():
    page = Page(render(reports=reports(report(received=NOW - 90))))
    assert {"datetime": "2026-11-20T21:46:23Z", "title": "2026-11-20 21:46:23 UTC"} in page.named("time")


def test_an_empty_history_is_stated_for_each_chart():
    assert render().count("No data has been recorded yet.") == 5


def test_the_page_is_renewed_as_often_as_the_queue_is_read_but_not_each_second():
    assert 'data-refresh="300"' in render()
    assert 'data-refresh="10"' in render(sections={"pool": {"refresh_seconds": 1}})
