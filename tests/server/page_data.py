# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders of the page's input, and the rendered page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import flask
from glidein_demand import config
from glidein_demand.pool.demand import without_private_data
from glidein_demand.store.leases import NOT_PAUSED
from glidein_demand.web import charts, page
from glidein_demand.web.results import PageData

from conftest import NOW, reported_entry, site_report

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"
TURNED = "abc\u202edef\u0000\u200b\ud800"


def group(name="aaaa", count=120, **changes):
    """Return a demand group as in a snapshot."""
    return {
        "id": name, "count": count, "cpus": 1, "memory_mb": 2048, "disk_mb": 1000, "gpus": 0, "requirements": None,
        "attributes": {}, "max_runtime_s": 7200, "first_job": "12.0", "users": {"alice@pool": count},
        "stale": 0, "unmaterialized": 0, "over_limit": 0, "as_of": NOW, **changes,
    }  # fmt: skip


def demand(*groups, **changes):
    schedds = {"answered": ["cm"], "failed": []}
    return {
        "as_of": NOW,
        "schedds": schedds,
        "groups": list(groups),
        "unreadable": [],
        "waiting_for_limit": [],
        **changes,
    }


def supplied(site="PSC", entry="RM", shape="node", **changes):
    """Return an entry of the supply."""
    return {
        "site": site, "entry": entry, "shape": shape, "registered": 2, "cpus": 56, "cpus_claimed": 28, "free": [],
        "passed_over": [], "oldest": NOW - 900, "retired": 0, "sample": None, "history": None,
        "core_hours": None,
        **changes,
    }  # fmt: skip


def supply(*entries, **changes):
    return {
        "as_of": NOW, "error": None, "entries": list(entries), "others": 0, "others_free": [], "others_cpus": 0,
        "others_cpus_claimed": 0, "problems": [], "gateways": [], **changes,
    }  # fmt: skip


def experience(**changes):
    """Return the history of an entry: ten glideins started, all registered."""
    return {
        "window_s": 21600, "plans": [], "started": 10, "registered": 10, "never_registered": 0, "ended_early": 0,
        "wait_median_s": 720, "wait_p90_s": 3600, "failures": [], **changes,
    }  # fmt: skip


def entry(name="RM", shape="node", **changes):
    """Return an entry of a site's report."""
    return reported_entry(entry=name, shape=shape, **changes)


def report(site="PSC", *entries, **changes):
    return site_report(**{"site": site, "received": NOW, "entries": list(entries or [entry()]), **changes})


def reports(*every):
    return {each["site"]: each for each in every}


def empty_history(name="day"):
    return {
        "range": name, "since": NOW - 86400, "until": NOW,
        "pool": {key: [] for key in ("times", *charts.POOL, "job_wait_s")},
        "sites": {"times": [], "series": []}, "share": [], "work": {"step": "hour", "rows": []},
    }  # fmt: skip


def page_data(**changes):
    """Return the page's data for a pool without problems, changed by field; `sections` changes the settings."""
    sections = changes.pop("sections", {})
    shown = changes.get("demand", demand(group()))
    if not changes.get("caller_has_token"):
        shown = {
            **shown,
            "groups": [without_private_data(each) for each in shown["groups"]],
            "unreadable": [{key: row[key] for key in row if key != "error"} for row in shown["unreadable"]],
        }
    values = {
        "settings": config.parse(sections), "now": NOW, "supply": supply(supplied()),
        "reports": reports(report()), "history": empty_history(), "clients": (), "leases": (), "pause": NOT_PAUSED,
        "usage": {"months": (), "sites": {"rows": (), "more": 0}, "projects": {"rows": ()}}, "caller_has_token": False,
        "job": None, "can_report": True, "database_works": True, **changes, "demand": shown,
    }  # fmt: skip
    return PageData(**values)


def view(**changes):
    return page.template_variables(page_data(**changes))


def many(sites=500, entries=3, groups=500):
    """Return the data of a large pool in which one site in ten has problems."""
    every, registered = [], []
    for index in range(sites):
        name = f"Site-{index:03d}"
        rows = [entry(f"entry{number}", running=index % 7, queued=index % 3) for number in range(entries)]
        rows[0]["error"] = "sbatch: exit status 1: invalid account" if index % 10 == 0 else None
        every.append(report(name, *rows))
        registered += [supplied(name, row["entry"], history=experience()) for row in rows if row["running"]]
    wanted = [group(f"{index:016x}", count=10_000 // (index + 1) + 1, cpus=index % 8 + 1) for index in range(groups)]
    return {"reports": reports(*every), "supply": supply(*registered), "demand": demand(*wanted)}


def render(**changes):
    """Return the page as HTML, rendered by Flask and the real templates with the application's options."""
    app = flask.Flask(page.__name__)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    with app.test_request_context("/"):
        return flask.render_template("status.html", **view(**changes))


class Page(HTMLParser):
    """A parsed page: `tags` [(name, attributes)], and the text of each row of its tables."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.rows, self.text = [], [], ""
        self._row = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self._row = []
            self.rows.append(self._row)
        elif tag in ("td", "th") and self._row is not None:
            self._row.append("")

    def handle_endtag(self, tag):
        if tag == "tr":
            self._row = None

    def handle_data(self, data):
        self.text += data
        if self._row:
            self._row[-1] += data

    def cells(self, first):
        """Return the cells of the rows whose first cell is `first`, with blanks normalised."""
        rows = [[re.sub(r"\s+", " ", cell).strip() for cell in row] for row in self.rows]
        return [row for row in rows if row and row[0] == first]

    def values(self, attribute):
        return [attributes[attribute] for _tag, attributes in self.tags if attribute in attributes]

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]
