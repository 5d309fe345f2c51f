# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the page's look: order, charts, phone, dark mode, print. Screenshots are in .build/screenshots."""

import pytest

from conftest import DESKTOP, PHONE, SCREENSHOTS

CHARTS = ["chart-demand", "chart-sites", "chart-waits", "chart-share", "chart-work"]
# The number of painted pixels of a canvas, and of their colours.
PAINTED = """id => {
  const canvas = document.querySelector(`#${id} canvas`);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  let painted = 0;
  for (let index = 0; index < data.length; index += 4) {
    if (data[index + 3] === 0) continue;
    painted += 1;
    colours.add((data[index] << 16) | (data[index + 1] << 8) | data[index + 2]);
  }
  return { painted, colours: colours.size };
}"""
PICTURE = "id => document.querySelector(`#${id} canvas`).toDataURL()"


def tops(page, selectors):
    return [page.locator(selector).first.bounding_box()["y"] for selector in selectors]


@pytest.mark.looks
def test_problems_are_above_demand_sites_and_charts(scene, watched, screenshot):
    page = watched.open(scene("bad").url)
    places = tops(page, ["#problems-title", "#demand-title", "#sites-title", "#clients-title", "#charts-title"])
    assert places == sorted(places)
    assert places[0] < 200
    screenshot(page, "desktop")


def test_the_most_severe_problem_is_first_with_its_reason(scene, watched):
    page = watched.open(scene("bad").url)
    badges = [text.strip() for text in page.locator(".problems .badge").all_inner_texts()]
    assert badges == sorted(badges, key=["Error", "Warning", "Note"].index)
    text = page.locator(".problems").inner_text()
    for words in (
        "submit2.example.org does not answer",
        "Permission denied (publickey,keyboard-interactive)",
        "the allocation ABC123 is exhausted",
        "never registered",
        "Site UW-Madison: no report for 2 h 3",  # minutes continue to pass while the tests run
        "2 idle jobs of cm cannot be counted",
    ):
        assert words in text, words


@pytest.mark.looks
def test_without_problems_the_page_shows_that_in_green(scene, watched, screenshot):
    page = watched.open(scene("good").url)
    title = page.locator("#problems-title")
    assert title.inner_text().strip() == "No problems"
    red, green, blue = title.evaluate("node => getComputedStyle(node).color.match(/\\d+/g).map(Number)")
    assert green > red
    assert green > blue
    screenshot(page, "good")


def test_core_hours_stand_between_sites_and_charts_with_links_to_csv(scene, watched, screenshot):
    page = watched.open(scene("good").url)
    places = tops(page, ["#sites-title", "#usage-title", "#charts-title"])
    assert places == sorted(places)
    row = page.locator("#table-usage-sites tbody tr").first
    assert row.locator("th").inner_text() == "UW-Madison/cpu"
    numbers = row.locator("td").all_inner_texts()
    assert len(numbers) == 4
    assert any(number != "0" for number in numbers)
    assert page.locator("#table-usage-projects tbody tr").all_inner_texts()[0].startswith("physics")
    assert page.locator("#table-usage-vos tbody tr").all_inner_texts()[0].startswith("lab")
    assert page.locator("#table-usage-users").count() == 0
    answer = page.request.get(page.locator("#usage a").first.evaluate("link => link.href"))
    assert answer.text().startswith("month,site,entry,granted_core_hours,used_core_hours\r\n")
    screenshot(page, "core-hours")


def test_a_pause_is_the_first_thing_in_red(scene, watched, screenshot):
    page = watched.open(scene("paused").url)
    banner = page.locator(".paused")
    assert "Paused" in banner.inner_text()
    assert "by root on cm.example.org" in banner.inner_text()
    assert "Downtime of the central manager" in banner.inner_text()
    red, green, blue = banner.evaluate("node => getComputedStyle(node).backgroundColor.match(/\\d+/g).map(Number)")
    assert red > 2 * max(green, blue)
    assert tops(page, [".paused"]) < tops(page, ["#problems-title"])
    assert page.title().startswith("Paused")
    screenshot(page, "paused")


@pytest.mark.parametrize("chart", CHARTS)
def test_a_chart_is_drawn_and_has_its_name_and_a_table(scene, watched, chart):
    page = watched.open(scene("good").url)
    found = page.evaluate(PAINTED, chart)
    assert found["painted"] > 2000
    assert found["colours"] > 5
    caption = page.locator(f"#{chart} caption").text_content()
    assert page.locator(f"#{chart} canvas").get_attribute("aria-label") == caption
    assert page.locator(f"#{chart} tbody tr").count() > 0


def test_without_history_the_page_shows_that_and_draws_nothing(scene, watched, screenshot):
    page = watched.open(scene("empty").url)
    assert page.get_by_text("No data has been recorded yet.").count() == len(CHARTS)
    assert not page.locator("canvas").first.is_visible()
    screenshot(page, "empty")


@pytest.mark.parametrize("name", ["good", "bad", "paused", "empty", "hostile", "many"])
def test_on_a_phone_nothing_needs_scrolling_sideways(scene, watched, screenshot, name):
    page = watched.open(scene(name).url, viewport=PHONE, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    if name in ("bad", "paused"):
        screenshot(page, "phone" if name == "bad" else "phone-paused")


@pytest.mark.looks
def test_on_a_phone_the_reason_and_every_number_with_its_name_can_be_read(scene, watched):
    page = watched.open(scene("bad").url, viewport=PHONE)
    body = page.locator("#site-SDSC-Expanse")
    reason = body.get_by_text("AssocGrpCPUMinutesLimit")
    box = reason.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    shown = body.locator("td:visible").evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell, '::before').content + cell.textContent)"
    )
    assert '"Held "3' in shown
    assert '"Registered "12' in shown


def test_the_dark_scheme_is_dark_and_the_charts_follow_it(scene, watched, screenshot):
    page = watched.open(scene("bad").url, color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(ground) < 60
    dark = page.evaluate(PICTURE, "chart-demand")
    screenshot(page, "dark")
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"before => ({PICTURE})('chart-demand') !== before", arg=dark)
    assert page.evaluate(PAINTED, "chart-demand")["painted"] > 2000


def test_another_count_of_glideins_can_be_chosen(scene, watched):
    page = watched.open(scene("good").url)
    before = page.evaluate(PICTURE, "chart-sites")
    page.get_by_label("Show", exact=True).select_option("queued")
    page.wait_for_function(f"before => ({PICTURE})('chart-sites') !== before", arg=before)


def test_a_large_pool_is_shown_with_trouble_first_and_the_rest_folded(scene, watched, screenshot):
    page = watched.open(scene("many").url)
    assert page.locator("#part-wrong[open] > summary").inner_text() == "10 sites with problems"
    assert not page.locator("#site-Site-002").is_visible()
    assert page.locator("#groups tbody tr").count() == 50
    assert "450 more groups" in page.locator("#more-groups > summary").inner_text()
    screenshot(page, "many")


def test_a_printed_page_has_no_controls(scene, watched):
    page = watched.open(scene("bad").url, viewport=DESKTOP)
    page.emulate_media(media="print")
    assert not page.locator("header nav").is_visible()
    assert not page.locator("#filter").is_visible()
    assert page.locator("#sites-title").is_visible()


def test_the_picture_of_the_page_is_small_enough_for_a_readme(scene, watched):
    page = watched.open(scene("bad").url, viewport={"width": 1100, "height": 800})
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / "status-page.png"
    page.screenshot(path=picture)
    assert picture.stat().st_size < 200_000
