# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the formatting of numbers, times and received texts."""

import unicodedata

import pytest
from glidein_demand.web import formatting
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (
            formatting.format_duration,
            {-5: "0 s", 0: "0 s", 119: "119 s", 120: "2 min", 7199: "119 min", 7200: "2 h", 12000: "3 h 20 min",
             172800: "2 d", 200000: "2 d 7 h"},
        ),
        (
            formatting.format_size,
            {1: "1 MiB", 1000: "1,000 MiB", 2048: "2 GiB", 2176: "2.1 GiB", 120000: "117 GiB", 8_000_000: "7.6 TiB"},
        ),
        (formatting.format_number, {None: "–", 0: "0", 12345: "12,345", 2.5: "2.5"}),
        (formatting.format_hours, {0: "0", 0.54: "0.5", 9.96: "10.0", 10.4: "10", 1234.5: "1,234"}),
    ],
)  # fmt: skip
def test_values_are_formatted_in_units_that_keep_them_short(function, texts):
    assert {value: function(value) for value in texts} == texts


@pytest.mark.parametrize(
    ("epoch", "time"),
    [
        (1_795_211_273, {"at": "2026-11-20 21:47:53 UTC", "ago": "12 s ago", "iso": "2026-11-20T21:47:53Z"}),
        (None, {"at": "–", "ago": "never", "iso": ""}),
        # A site's clock may be wrong.
        (10**18, {"at": "epoch 1000000000000000000", "ago": "0 s ago", "iso": ""}),
    ],
)
def test_a_time_has_its_age_its_utc_text_and_its_iso_form(epoch, time):
    assert formatting.format_time(epoch, 1_795_211_285) == time


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u0000\u200b", "a\\u0000\\u200b"),
        ("line\nbreak\u2028and\u00a0space", "line break and space"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("Zürich 東京 שלום", "Zürich 東京 שלום"),
        ("e" + "\u0301" * 40, "e" + "\u0301" * 3),
    ],
)
def test_control_characters_are_shown_as_escapes(text, shown):
    assert formatting.printable(text) == shown


@given(st.text(alphabet=st.characters(), max_size=60))
def test_no_text_keeps_a_character_that_controls_or_formats(text):
    shown = formatting.printable(text)
    assert all(unicodedata.category(char)[0] != "C" for char in shown)
    assert formatting.printable(shown) == shown
    shown.encode()


@given(
    st.recursive(
        st.text(max_size=5) | st.integers() | st.none(),
        lambda part: st.lists(part) | st.dictionaries(st.text(max_size=5), part),
        max_leaves=10,
    )
)  # noqa: E501
def test_everything_inside_is_cleaned(value):
    def texts(part):
        if isinstance(part, dict):
            return [text for pair in part.items() for each in pair for text in texts(each)]
        if isinstance(part, list):
            return [text for each in part for text in texts(each)]
        return [part] if isinstance(part, str) else []

    assert all(formatting.printable(text) == text for text in texts(formatting.printable_values(value)))


@given(st.text(max_size=80))
def test_an_anchor_has_no_character_that_html_or_an_address_would_change(name):
    anchor = formatting.anchor("site", name)
    assert anchor.isascii()
    assert anchor.replace("-", "").replace("_", "").replace(".", "").isalnum()


def test_anchors_of_names_are_readable_and_differ():
    assert formatting.anchor("site", "PSC-Bridges.RM_2") == "site-PSC-Bridges.RM_2"
    assert formatting.anchor("site", "a b") != formatting.anchor("site", "a\u00a0b")
