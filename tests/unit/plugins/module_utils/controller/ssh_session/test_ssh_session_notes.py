# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of one-time codes, the session's state file, and notifications about a lost session."""

import stat
import sys
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session import codes, record
from hypothesis import given
from hypothesis import strategies as st

# RFC 6238, appendix B: the seed "12345678901234567890", and the last six digits of the code at 59 s.
SEED = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
NOW = 1795248000
NOTICE = {"text": "PSC: login needed", "site": "PSC", "host": "login", "login_needed_since": NOW}


class Clock:
    """A clock that sleep() moves forward."""

    def __init__(self, now):
        self.now = now

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def code(directory, clock, seed=SEED):
    return codes.code(seed, str(directory), clock.time, clock.sleep)


@pytest.mark.parametrize("seed", [SEED, "gezd gnbv gy3t qojq gezd gnbv gy3t qojq", f"otpauth://totp/a?secret={SEED}"])
def test_the_code_is_that_of_rfc_6238(tmp_path, seed):
    assert code(tmp_path, Clock(45), seed) == "287082"


def test_a_code_is_used_once_and_the_next_one_is_awaited(tmp_path):
    clock = Clock(45)
    given = [code(tmp_path, clock) for _again in range(3)]
    assert len(set(given)) == 3
    assert clock.now == 90


def test_a_code_that_would_arrive_too_late_is_not_used(tmp_path):
    clock = Clock(59)
    code(tmp_path, clock)
    assert clock.now == 60


def test_the_note_of_the_last_code_is_private_and_has_no_secret(tmp_path):
    code(tmp_path, Clock(45))
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "1\n"
    assert SEED not in path.name


def test_a_clock_that_was_set_back_is_reported(tmp_path):
    code(tmp_path, Clock(3600))
    (path,) = tmp_path.iterdir()
    with pytest.raises(GlideinError, match=f"3570 s in the future, according to {path}. Correct this host's clock."):
        code(tmp_path, Clock(45))


@given(st.integers(0, 2**31), st.sampled_from([30, 60]), st.one_of(st.none(), st.integers(-3, 1)))
def test_a_step_is_new_and_soon(now, interval, back):
    last = None if back is None else now // interval + back
    wait, step = codes.wait_and_step(now, interval, last, "x.totp")
    assert last is None or step > last
    assert 0 <= wait <= 2 * interval
    assert step * interval <= now + wait <= (step + 1) * interval


@pytest.mark.parametrize("seed", ["right horse!", "otpauth://hotp/a?secret=" + SEED, "otpauth://totp/a"])
def test_a_wrong_seed_is_not_shown(seed):
    with pytest.raises(InputError) as raised:
        codes.generator(seed)
    assert "not shown" in str(raised.value)
    assert "horse" not in str(raised.value) and SEED not in str(raised.value)


def test_a_loss_has_one_beginning_and_a_new_session_ends_it():
    known = record.opened(NOW)
    lost = record.checked(record.checked(known, False, NOW + 60), False, NOW + 120)
    assert (lost["lost"], lost["seen"], lost["told"]) == (NOW + 60, NOW, False)
    assert record.checked(lost, True, NOW + 180)["lost"] is None
    assert record.lost(lost, NOW + 180, told=True) == dict(lost, told=True)


def test_a_record_is_private_and_one_that_cannot_be_read_begins_anew(tmp_path):
    path = str(tmp_path / "s")
    record.write(path, record.opened(NOW))
    assert stat.S_IMODE(Path(record.path_of(path)).stat().st_mode) == 0o600
    assert record.read(path)["opened"] == NOW
    for text in ("{", "[]"):
        (tmp_path / "s.json").write_text(text)
        nothing = dict.fromkeys(("opened", "seen", "lost", "tried", "refused"))
        assert record.read(path) == dict(nothing, told=False)


def test_a_loss_is_notified_once_and_retried_later_after_a_failure(tmp_path):
    lost = record.checked(record.read(str(tmp_path / "s")), False, NOW)
    assert record.is_notification_due(lost, NOW)
    tried = dict(lost, tried=NOW)
    assert [record.is_notification_due(tried, NOW + later) for later in (0, 300, 600)] == [False, False, True]
    # A clock that was ahead does not suppress a notification.
    assert record.is_notification_due(tried, NOW - 3600)
    assert not record.is_notification_due(record.notified(tried, NOW), NOW + 3600)
    assert record.is_notification_due(record.checked(record.opened(NOW + 1), False, NOW + 2), NOW + 2)


def test_a_notification_is_not_recorded_for_a_newer_session():
    known = record.opened(NOW)
    assert record.notified(known, NOW - 60) == known


def test_the_hook_gets_the_text_and_the_values(tmp_path, server):
    command = [
        sys.executable,
        "-c",
        "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + os.environ['GLIDEIN_SITE']"
        " + os.environ['GLIDEIN_LOGIN_NEEDED_SINCE'])",
        str(tmp_path / "told"),
    ]
    assert record.notify({"command": command, "url": server.url}, NOTICE) == ""
    assert (tmp_path / "told").read_text() == f"PSC: login needed\nPSC{NOW}"
    assert server.requests[0][2] == NOTICE


def test_a_failed_hook_is_reported_without_its_address(server):
    server.say("no", 403)
    errors = record.notify({"command": ["false"], "url": server.url + "/secret"}, NOTICE)
    assert "false failed with exit status 1" in errors
    assert "on_loss.url: the request failed: 403" in errors
    assert "secret" not in errors
