# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page says, in which order, and that it shows hostile text as text."""

import re
from html.parser import HTMLParser

import pytest
from glidein_demand import page, supply

from conftest import NOW, TOKEN, Service, group, new_state, settings, site_report, slot

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def read_all(service, groups=(), slots=()):
    service.state.demand_read("", {"name": "cm", "groups": list(groups), "unreadable": []}, NOW)
    service.state.supply_read(supply.summarise(slots, NOW), NOW)


def problems(state, now=NOW, has_token=True, **sections):
    return page.problems(state.snapshot(), settings(**sections), now, has_token)


def test_all_well_says_so(service):
    read_all(service, [group(120)], [slot()])
    assert "Nothing is wrong" in service.page()


def test_demand_comes_after_what_is_wrong_and_before_the_sites(service):
    service.state.demand_failed("", "no answer")
    text = service.page()
    order = [text.index(heading) for heading in ('id="problems"', 'id="demand"', 'id="sites"')]
    assert order == sorted(order)


def test_the_numbers_of_a_group_and_of_a_site_stand_in_one_row_each(service):
    read_all(service, [group(120, cpus=3)], [slot(GLIDEIN_Site="PSC", GLIDEIN_Entry="RM", GLIDEIN_Shape="node")])
    service.result("report", site_report(), TOKEN)
    rows = [re.sub(r"<[^>]+>|\s+", " ", row).split() for row in re.findall(r"<tr>.*?</tr>", service.page(), re.DOTALL)]
    assert [row[:5] for row in rows if row[0] == "120"] == [["120", "3", "2048", "1000", "0"]]
    # site, entry, shape, queued, running, registered, launched, busy cores
    assert [row[:10] for row in rows if row[0] == "PSC"] == [["PSC", "RM", "node", "1", "2", "1", "1", "0", "of", "4"]]


def test_a_stale_reading_is_the_first_problem():
    state = new_state()
    state.demand_read("", {"name": "cm", "groups": [], "unreadable": []}, NOW - 5000)
    state.demand_failed("", "no answer within 60 s")
    found = problems(state)
    assert "last read 83 min ago" in found[0]
    assert "cm does not answer" in found[1]
    assert "no answer within 60 s" in found[1]


def test_a_failed_schedd_is_named_while_others_answer():
    state = new_state()
    state.demand_read("a", {"name": "a", "groups": [], "unreadable": []}, NOW)
    state.demand_failed("b", "refused")
    assert problems(state) == ["Schedd b does not answer (it was never read): refused"]


def test_a_silent_site_is_named():
    service = Service()
    read_all(service)
    service.result("report", site_report(), TOKEN)
    service.now = NOW + 3601
    read = {"name": "cm", "groups": [], "unreadable": []}
    service.state.demand_read("", read, service.now)
    assert problems(service.state, service.now) == ["Site PSC: no report for 60 min."]


def test_errors_sick_glideins_and_orphans_of_a_site_are_named(service):
    read_all(service)
    entry = {"entry": "RM", "shape": "node", "sick": 2, "error": "sbatch: exit status 1: Invalid account"}
    service.result("report", site_report(entries=[entry], orphans=3), TOKEN)
    found = problems(service.state)
    assert [text for text in found if "Invalid account" in text]
    assert [text for text in found if "2 glideins are held" in text]
    assert [text for text in found if "3 glideins belong to no entry" in text]


def test_unreadable_jobs_and_a_missing_token_are_problems():
    state = new_state()
    row = {"count": 2, "first_job": "3.0", "attribute": "RequestMemory", "error": "RequestMemory is x"}
    state.demand_read("", {"name": "cm", "groups": [], "unreadable": [row]}, NOW)
    found = problems(state, has_token=False)
    assert "2 idle jobs of cm are not counted: RequestMemory" in found[0]
    assert "No token is configured" in found[1]


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend(attrs)


def test_hostile_text_is_shown_as_text(service):
    slots = [slot(GLIDEIN_Site=HOSTILE, GLIDEIN_Entry=HOSTILE, GLIDEIN_Shape=HOSTILE)]
    read_all(service, [group(first_job=HOSTILE)], slots)
    service.state.demand_failed("", HOSTILE)
    service.result("report", site_report(error=HOSTILE), TOKEN)
    service.result("monitoring", {"uuid": HOSTILE, "glideins_idle": 1}, TOKEN)
    text = service.page()
    parsed = Tags(text)
    assert "&lt;script&gt;" in text
    assert not {"script", "img"} & set(parsed.tags)
    assert not [name for name, _value in parsed.attributes if name.startswith("on")]


def test_the_page_names_no_user_and_loads_nothing_from_elsewhere(service):
    read_all(service, [group(requirements='Owner == "alice"', attributes={"Owner": "alice"})])
    text = service.page()
    assert "alice" not in text
    parsed = Tags(text)
    links = [value for name, value in parsed.attributes if name in ("src", "href")]
    assert links == ["/static/style.css"]
    assert service.client.get(links[0]).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/static/style.css", "/nothing", "/jsonrpc"])
def test_every_answer_has_the_strict_headers(service, path):
    headers = service.client.get(path).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script-src" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_an_error_inside_is_one_line_and_no_stack_trace(service, monkeypatch):
    # The state is made unusable from outside: there is no way to do it through the service.
    monkeypatch.setattr(service.state, "_snapshot", None)
    response = service.client.get("/")
    assert (response.status_code, response.text) == (500, "500 Internal Server Error\n")
    assert service.call("get_state").json["error"] == {"code": -32000, "message": "Server error"}


def test_health_is_bad_before_the_first_reading_good_after_it_and_bad_when_stale(service):
    assert (service.client.get("/healthz").status_code, service.client.get("/healthz").json["status"]) == (
        503,
        "starting",
    )
    read_all(service)
    good = service.client.get("/healthz")
    assert (good.status_code, good.json["status"], good.json["age_s"]) == (200, "ok", 0)
    service.now = NOW + 901
    stale = service.client.get("/healthz")
    assert (stale.status_code, stale.json["status"], stale.json["age_s"]) == (503, "stale", 901)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h 0 min"), (200000, "2 d 7 h")]
)
def test_durations_are_said_as_people_do(seconds, said):
    assert page.duration(seconds) == said


def test_a_time_no_calendar_knows_does_not_break_the_page():
    assert page.moment(10**18, NOW)["at"] == "epoch 1000000000000000000"
