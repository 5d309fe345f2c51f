# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that HTCondor 23.9's schedd counters distinguish removed idle jobs from started ones."""

import pytest
from glidein_demand.pool.removals import KEPT_S, Removals, counters

from conftest import NOW


class Schedd:
    """A queue that keeps the counters as a schedd does."""

    def __init__(self, idle=0):
        self.idle = self.ads = self.submitted = idle
        self.started = self.completed = 0
        self.start_time = 1

    def about(self):
        return {
            "JobsSubmitted": self.submitted, "JobsStarted": self.started, "JobsCompleted": self.completed,
            "TotalJobAds": self.ads, "DaemonStartTime": self.start_time, "MaxJobsRunning": 100,
        }  # fmt: skip

    def submit(self, jobs):
        self.submitted, self.ads, self.idle = self.submitted + jobs, self.ads + jobs, self.idle + jobs

    def start(self, jobs):
        self.started, self.idle = self.started + jobs, self.idle - jobs

    def complete(self, jobs):
        self.completed, self.ads = self.completed + jobs, self.ads - jobs

    def remove_idle(self, jobs):
        self.ads, self.idle = self.ads - jobs, self.idle - jobs

    def remove_running(self, jobs):
        self.ads -= jobs

    def hold(self, jobs):
        self.idle -= jobs


class Story:
    """Readings of a schedd, a minute apart."""

    def __init__(self, idle):
        self.now = NOW
        self.schedd = Schedd(idle)
        self.removals = Removals(lambda: self.now)
        self.read()

    def read(self):
        self.removals.store_counters("cm", counters(self.schedd.about()), self.schedd.idle, self.now)
        self.now += 60

    def removed_jobs(self):
        return sum(jobs for _time, jobs in self.removals.recent())


@pytest.mark.parametrize(
    ("events", "removed"),
    [
        ([("remove_idle", 10)], 10),
        ([("start", 10)], 0),
        ([("start", 10), ("complete", 10)], 0),
        ([("start", 10), ("remove_running", 10)], 0),
        ([("hold", 10)], 0),
        ([("start", 4), ("remove_idle", 6), ("complete", 4)], 6),
        ([("submit", 5), ("remove_idle", 15)], 15),
        ([("submit", 5)], 0),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_only_idle_jobs_that_left_the_queue_were_removed(events, removed, at_once):
    story = Story(10)
    for event, jobs in events:
        getattr(story.schedd, event)(jobs)
        if not at_once:
            story.read()
    story.read()
    story.read()
    assert story.removed_jobs() == removed


def test_removals_between_counters_and_queue_count_in_the_next_query():
    story = Story(10)
    before = counters(story.schedd.about())
    story.schedd.remove_idle(10)
    story.removals.store_counters("cm", before, 0, story.now)
    assert story.removed_jobs() == 0
    story.read()
    assert story.removed_jobs() == 10


def test_a_restarted_schedd_counts_from_its_start():
    story = Story(10)
    story.schedd = Schedd(0)
    story.schedd.start_time = 2
    story.read()
    assert story.removed_jobs() == 0


def test_removals_are_forgotten_after_an_hour():
    story = Story(10)
    story.schedd.remove_idle(10)
    story.read()
    assert story.removals.recent() == [[NOW + 60, 10]]
    story.now += KEPT_S
    assert story.removals.recent() == []


def test_a_schedd_without_counters_is_ignored():
    removals = Removals(lambda: NOW)
    for idle in (10, 0):
        removals.store_counters("cm", {"JobsStarted": 1}, idle, NOW)
    assert removals.recent() == []


def test_callers_get_the_removals_with_the_supply(service):
    story = Schedd(10)
    service.server.removals.store_counters("cm", counters(story.about()), 10, NOW - 60)
    story.remove_idle(10)
    service.server.removals.store_counters("cm", counters(story.about()), 0, NOW)
    assert service.result("get_supply")["removals"] == [[NOW, 10]]
