# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import (
    MAX_NAMED,
    MAX_NAMED_OF_SITE,
    MAX_TIMES,
    queue_result,
    since,
    sort_jobs,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW, job, raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear

MAIN = job_name("glidein", "lab", "main", "core")
GONE = job_name("glidein", "lab", "old", "core")
ELSEWHERE = job_name("glidein", "other-site", "main", "core")


def result(jobs, recorded=()):
    return queue_result(site(), sort_jobs(jobs, site(), set(recorded)), "me", NOW, {}, None)


def test_every_state_is_counted_by_entry_and_shape():
    queue = result(
        [
            job("1_1", MAIN),
            job("1_2", MAIN, submitted=NOW - 500),
            job("1_3", MAIN, "running", submitted=NOW - 100, started=NOW - 40),
            job("1_4", MAIN, "completing"),
            job("1_5", MAIN, "sick", reason="JobHeldUser", cancellable=True),
            job("1_6", MAIN, "sick", reason="BadConstraints", cancellable=True)._replace(never_starts=True),
        ]
    )
    assert queue["entries"] == [
        {
            "entry": "main",
            "shape": "core",
            "job_name": MAIN,
            "queued": 2,
            "running": 1,
            "completing": 1,
            "sick": 2,
            "never_starts": 1,
            "sick_reasons": ["BadConstraints", "JobHeldUser"],
            "oldest_queued_s": 500,
            "queued_since": [[NOW - 500, 1], [NOW - 100, 1]],
            "running_since": [[NOW - 40, 1]],
            "running_glideins": [{"id": "1_3", "wait_s": 60}],
        }
    ]


def test_every_shape_is_counted_and_the_smallest_of_an_entry_is_the_first():
    # A probe takes the first one.
    shapes = {"whole": shape(cpus=32, memory_mb=64000), "gpu": shape(gpus=1), "large": shape(cpus=4), "small": shape()}
    several = site({"b": raw_entry(shapes=shapes), "a": raw_entry()})
    entries = queue_result(several, sort_jobs([], several, set()), "me", NOW, {}, None)["entries"]
    assert [(each["entry"], each["shape"]) for each in entries] == [
        ("b", "small"), ("b", "large"), ("b", "whole"), ("b", "gpu"), ("a", "core"),
    ]  # fmt: skip
    assert {(each["queued"], each["oldest_queued_s"]) for each in entries} == {(0, None)}


def test_glideins_in_an_unknown_state_are_present_and_named():
    jobs = [job(f"1_{n}", MAIN, reason="state DREAMING is unknown", cancellable=False) for n in (1, 2)]
    queue = result([*jobs, job("1_3", MAIN), job("2_1", MAIN, cancellable=False)])
    assert queue["entries"][0]["queued"] == 4
    assert queue["unknown_states"] == [
        "state DREAMING is unknown: glideins in it, such as job 1_1, count as queued, and are cancelled only with "
        "running ones"
    ]


def test_times_are_never_negative_and_unknown_without_a_start():
    jobs = [job("1_2", MAIN, "running"), job("1_1", MAIN, "running", started=NOW - 101)]
    entry = result(jobs)["entries"][0]
    assert entry["running_glideins"] == [{"id": "1_1", "wait_s": 0}, {"id": "1_2", "wait_s": None}]
    assert entry["running_since"] == [[NOW - 101, 1]]
    # The clock lags.
    assert result([job("1", MAIN, submitted=NOW + 50)])["entries"][0]["oldest_queued_s"] == 0


def test_glideins_that_were_submitted_together_are_reported_together():
    assert since([]) == []
    assert since([NOW, NOW - 9, NOW]) == [[NOW - 9, 1], [NOW, 2]]


def test_many_times_are_grouped_and_never_become_earlier():
    times = [NOW - 7 * number for number in range(2000)]
    told = since(times)
    assert told == sorted(told)
    assert len(told) <= MAX_TIMES
    assert sum(number for unused, number in told) == 2000
    for age_s in (300, 600, 3600, 14000):
        older = sum(1 for time_s in times if time_s < NOW - age_s)
        assert older - 70 <= sum(number for time_s, number in told if time_s < NOW - age_s) <= older


def test_too_many_running_glideins_are_not_named():
    jobs = [job("1_" + str(number), MAIN, "running") for number in range(MAX_NAMED + 1)]
    assert len(result(jobs[1:])["entries"][0]["running_glideins"]) == MAX_NAMED
    assert result(jobs)["entries"][0]["running_glideins"] is None


def test_of_a_site_with_very_many_those_of_the_largest_entries_are_not_named():
    shapes = {"s" + str(number): shape() for number in range(7)}
    large = site({"main": raw_entry(shapes=shapes)})
    jobs = [
        job("{0}_{1}".format(number, task), job_name("glidein", "lab", "main", "s" + str(number)), "running")
        for number in range(7)
        for task in range(MAX_NAMED - number)
    ]
    entries = queue_result(large, sort_jobs(jobs, large, set()), "me", NOW, {}, None)["entries"]
    named = {entry["shape"]: entry["running_glideins"] and len(entry["running_glideins"]) for entry in entries}
    assert [named["s0"], named["s1"]] == [None, None]
    assert sum(number or 0 for number in named.values()) <= MAX_NAMED_OF_SITE
    assert all(named["s" + str(number)] == MAX_NAMED - number for number in range(2, 7))


@pytest.mark.parametrize(
    "names, orphans, others",
    [
        (["bash", job_name("another", "lab", "main", "core")], (0, 0), (0, 0)),  # of other people and deployments
        ([GONE], (1, 1), (0, 0)),  # of a removed entry
        ([ELSEWHERE], (0, 0), (1, 1)),  # of another site on the same account
    ],
)
def test_jobs_that_match_no_entry_are_orphans_only_if_this_site_has_submitted_them(names, orphans, others):
    jobs = [job(f"{name}_{state}", name, state) for name in names for state in ("queued", "running")]
    queue = result(jobs, recorded=[GONE])
    assert queue["orphans"] == {"queued": orphans[0], "running": orphans[1]}
    assert queue["others"] == {"queued": others[0], "running": others[1]}


def test_the_cost_of_counting_grows_in_proportion_to_the_number_of_jobs():
    small, large = (
        [job(str(n), "bash") for n in range(times * 100)] + [job("9_" + str(n), MAIN) for n in range(times * 10)]
        for times in (1, SCALE)
    )
    assert assert_linear(result, small, large)["entries"][0]["queued"] == SCALE * 10
