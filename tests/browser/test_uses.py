# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the page's use: with and without JavaScript, by keyboard, and during updates."""

import json
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from conftest import SCENES
from scenes import HOSTILE, entry, report

SCENE = [str(SCENES), "CONFIG"]


def send(server, site_report):
    """Send a site's report, as a cycle does."""
    body = {"jsonrpc": "2.0", "method": "report", "params": site_report, "id": 1}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.token}"}
    request = urllib.request.Request(f"{server.url}/jsonrpc", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert "error" not in json.load(answer)


def test_hostile_text_is_text(scene, watched):
    page = watched.open(scene("hostile").url)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0
    shown = page.locator("main").inner_text()
    assert shown.count(HOSTILE) >= 8
    assert "abc\\u202edef" in shown
    assert "\u202e" not in page.content()


def test_a_refresh_does_not_ask_the_schedds_for_the_job_again(scene, watched):
    server = scene("good")
    token = {"Authorization": f"Bearer {server.token}"}
    page = watched.open(f"{server.url}/?job=12.0", extra_http_headers=token)
    page.evaluate("document.getElementById('job-result').dataset.first = 'yes'")
    asked = []
    page.on("request", lambda request: asked.append("job=" in request.url))
    with page.expect_response(lambda answer: "/?" not in answer.url and answer.url.endswith("/")):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert asked and not any(asked)
    assert page.locator("#job-result").get_attribute("data-first") == "yes"
    with page.expect_response(lambda answer: "?job=12.0" in answer.url):
        page.get_by_role("link", name="Reload").click()


@pytest.mark.looks
def test_without_javascript_the_page_has_tables_and_no_scripted_elements(scene, watched, screenshot):
    page = watched.open(scene("bad").url, java_script_enabled=False)
    assert page.locator("#groups tbody tr").count() >= 8
    assert page.locator("#site-NERSC").is_visible()
    assert "Permission denied" in page.locator(".problems").inner_text()
    page.locator("#chart-demand-table > summary").click()
    assert page.get_by_text("Demand, last day").is_visible()
    for control in ("#filter", "#site-count", "canvas >> nth=0"):
        assert not page.locator(control).is_visible()
    screenshot(page, "without-javascript")


def test_without_javascript_another_range_is_a_link(scene, watched):
    page = watched.open(scene("good").url, java_script_enabled=False)
    page.get_by_role("link", name="Week").click()
    assert page.locator("#ranges [aria-current]").inner_text() == "Week"
    assert page.locator("#chart-demand caption").text_content().startswith("Demand, last week")


def test_another_range_is_drawn_in_place_and_stays_in_the_address(scene, watched):
    page = watched.open(scene("good").url)
    with page.expect_response(lambda answer: "/history?range=week" in answer.url):
        page.get_by_role("link", name="Week").click()
    page.wait_for_function("() => document.querySelector('#chart-demand canvas').ariaLabel.includes('last week')")
    assert page.url.endswith("?range=week#charts")
    assert page.locator("#ranges [aria-current]").inner_text() == "Week"


def test_the_filter_finds_sites_also_in_folded_parts(scene, watched):
    page = watched.open(scene("many").url)
    page.get_by_label("Filter").fill("site-124 gpu")
    assert page.locator("#filter-found").inner_text() == "1 of 500 sites"
    assert page.locator("#sites-parts tbody:visible").count() == 1
    assert page.locator("#site-Site-124").is_visible()
    page.get_by_label("Filter").fill("")
    assert not page.locator("#site-Site-124").is_visible()
    assert page.locator("#site-Site-050").is_visible()


def test_a_link_to_a_row_opens_its_section(scene, watched):
    page = watched.open(scene("many").url)
    page.locator("#part-wrong > summary").click()
    assert not page.locator("#site-Site-050").is_visible()
    page.locator(".problems summary").first.click()
    page.get_by_role("link", name="Site Site-050").first.click()
    page.locator("#site-Site-050").wait_for(state="visible")


def test_the_keyboard_reaches_every_control_and_the_focus_is_visible(scene, watched):
    page = watched.open(scene("bad").url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    seen = set()
    for _unused in range(60):
        focused = page.evaluate(
            """() => { const style = getComputedStyle(document.activeElement);
            return [document.activeElement.tagName, style.outlineStyle, parseFloat(style.outlineWidth)]; }"""
        )
        if focused[0] == "BODY":
            break
        seen.add(focused[0])
        assert focused[1] != "none", focused
        assert focused[2] >= 1, focused
        page.keyboard.press("Tab")
    assert {"A", "DIV", "INPUT", "SELECT", "SUMMARY"} <= seen


def test_the_skip_link_leads_to_the_content(scene, watched):
    page = watched.open(scene("bad").url)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_new_numbers_come_by_themselves_and_nothing_else_moves(own_server, watched):
    server = own_server([*SCENE, "bad"], "pool.refresh_seconds = 300\n")
    page = watched.open(server.url)
    page.clock.install()
    page.reload(wait_until="networkidle")
    page.locator("#chart-demand-table > summary").click()
    page.get_by_label("Filter").fill("psc")
    page.locator("#filter").evaluate("node => node.scrollIntoView()")
    before = page.evaluate("scrollY")
    send(server, report("PSC-Bridges", entry("cpu", running=77)))
    page.clock.fast_forward(301_000)
    page.wait_for_function("() => document.getElementById('site-PSC-Bridges').textContent.includes('77')")
    page.wait_for_function("() => document.getElementById('said').textContent.includes('problem')")
    assert page.locator("#chart-demand-table").get_attribute("open") is not None
    assert page.get_by_label("Filter").input_value() == "psc"
    assert page.locator("#sites-parts tbody:visible").count() == 1
    assert page.evaluate("document.activeElement.id") == "filter"
    assert abs(page.evaluate("scrollY") - before) < 100  # one problem less above it moves what is below


def test_an_unreachable_server_is_reported_and_the_last_numbers_stay(own_server, watched):
    server = own_server([*SCENE, "good"])
    page = watched.open(server.url)
    server.end()
    page.get_by_role("link", name="Reload").click()
    page.locator("#failed").wait_for(state="visible")
    assert "These numbers are out of date" in page.locator("#failed").inner_text()
    assert page.locator("#site-NERSC").is_visible()
    watched.wrong = [each for each in watched.wrong if "ERR_CONNECTION_REFUSED" not in each]


def test_the_real_command_shows_its_databases_content(own_server, watched):
    command = str(Path(sys.executable).with_name("glidein-demand"))
    server = own_server([command, "serve", "--config", "CONFIG"], "pool.query_timeout_seconds = 5\n")
    send(server, report("PSC-Bridges", entry("cpu", running=31)))
    page = watched.open(server.url)
    # The server may have served the page before its first query timed out.
    deadline = time.monotonic() + 120
    while not page.get_by_text("does not answer").count() and time.monotonic() < deadline:
        with page.expect_response(server.url + "/"):
            page.get_by_role("link", name="Reload").click()
        page.wait_for_load_state("networkidle")
    assert page.get_by_text("does not answer").first.is_visible()
    assert "31" in page.locator("#site-PSC-Bridges").inner_text()
    assert page.locator("#failed").is_hidden()


def test_user_names_are_for_callers_with_a_token(scene, watched):
    server = scene("bad")
    assert "alice" not in watched.open(server.url).content()
    known = watched.open(server.url, extra_http_headers={"Authorization": f"Bearer {server.token}"})
    assert "alice@pool (3,000)" in known.locator("#groups").inner_text()
    assert "AlmaLinux9" in known.locator("#groups").inner_text()
