# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from glidein_demand.store.database import Database
from glidein_demand.store.switch import Switch

from databases import NOW, Clock, seen_within

OFF = {"paused": False, "since": None, "reason": "", "by": ""}


def test_it_is_off_at_first(database):
    assert Switch(database).state() == OFF


def test_pausing_says_since_when_why_and_by_whom(database):
    switch = Switch(database, Clock(NOW))
    assert switch.pause("disks full", "ada") == {"paused": True, "since": NOW, "reason": "disks full", "by": "ada"}
    assert switch.state()["reason"] == "disks full"


def test_pausing_again_changes_the_reason_but_not_since_when(database):
    clock = Clock(NOW)
    switch = Switch(database, clock)
    switch.pause("first", "ada")
    clock.now += 60
    assert switch.pause("second", "bob") == {"paused": True, "since": NOW, "reason": "second", "by": "bob"}
    switch.resume()
    assert switch.pause()["since"] == NOW + 60


def test_resuming_twice_is_as_once(database):
    switch = Switch(database)
    switch.pause("x", "y")
    assert switch.resume() == switch.resume() == switch.state() == OFF


def test_it_outlives_its_process_and_is_seen_by_another_within_a_second(database, database_url):
    mine, other = Switch(database, Clock(NOW)), Switch(Database(database_url))
    assert other.state() == OFF
    mine.pause("x", "y")
    assert seen_within(1, lambda: other.state()["paused"])
    mine.resume()
    assert seen_within(1, lambda: not other.state()["paused"])


def test_what_its_caller_does_to_a_state_changes_nothing(database):
    switch = Switch(database)
    switch.state()["paused"] = True
    assert switch.state() == OFF
