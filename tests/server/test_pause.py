# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
from glidein_demand.store.database import Database
from glidein_demand.store.pause import Pause

from databases import NOW, Clock

OFF = {"paused": False, "since": None, "reason": "", "by": ""}


def test_the_pause_is_off_at_first(database):
    assert Pause(database).state() == OFF


def test_a_pause_has_time_reason_and_author(database):
    pause = Pause(database, Clock(NOW))
    assert pause.set("disks full", "ada") == {"paused": True, "since": NOW, "reason": "disks full", "by": "ada"}
    assert pause.state()["reason"] == "disks full"


def test_pausing_again_changes_the_reason_but_not_since_when(database):
    clock = Clock(NOW)
    pause = Pause(database, clock)
    pause.set("first", "ada")
    clock.now += 60
    assert pause.set("second", "bob") == {"paused": True, "since": NOW, "reason": "second", "by": "bob"}
    pause.clear()
    assert pause.set()["since"] == NOW + 60


def test_resuming_twice_is_as_once(database):
    pause = Pause(database)
    pause.set("x", "y")
    assert pause.clear() == pause.clear() == pause.state() == OFF


def test_a_pause_survives_its_process_and_becomes_visible_to_another_one(database, database_url):
    mine, other = Pause(database, Clock(NOW)), Pause(Database(database_url))
    assert other.state() == OFF
    mine.set("x", "y")
    assert other.state()["paused"]
    mine.clear()
    assert not other.state()["paused"]
