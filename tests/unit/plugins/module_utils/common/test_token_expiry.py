# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import credential_expires, expires, utc
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW, token
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("end", [NOW, NOW + 0.5])
@pytest.mark.parametrize("subject", ["a", "ab", "abc", "abcd"])  # all lengths of base64 without padding
def test_the_end_of_a_token_is_read(end, subject):
    assert expires(token(exp=end, sub=subject)) == NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a token",
        "a.b.c",
        "a.W10.c",
        "a.\u00e4.c",
        token(),
        token(exp=None),
        token(exp=True),
        token(exp="1795211280"),
        token(exp=-1),
        token(exp=10**12),
        token(exp=float("nan")),
        token(exp=NOW) + "." + token(exp=NOW),
    ],
)
def test_a_text_without_an_expiry_time_has_no_end(text):
    assert expires(text) is None


@given(st.text() | st.lists(st.text(), min_size=3, max_size=3).map(".".join))
def test_no_text_is_an_error(text):
    assert expires(text) is None or isinstance(expires(text), int)


def test_the_file_may_be_missing_or_no_text(tmp_path):
    path = tmp_path / "credential"
    assert credential_expires(str(path)) is None
    path.write_bytes(b"\xff\x00")
    assert credential_expires(str(path)) is None
    assert credential_expires(str(tmp_path)) is None
    path.write_text(token(exp=NOW))
    assert credential_expires(str(path)) == NOW


def test_times_are_shown_in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert utc(NOW) == "2026-11-20 21:48:00 UTC"
