# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a queue that shows far fewer glideins than expected."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    planned_site,
    queue,
    raw_entry,
    site,
    supplied,
    supply,
)

FIELD_TRIAL = {"age_s": 300, "queued": 3, "running": 4, "registered": 4, "wanted": 7}
NOTHING = {"age_s": 300, "queued": 0, "running": 0, "registered": 4, "wanted": 7}


def planned(have, *reports, registered=0, jobs=50, entries=None, supply_age_s=10, **guard):
    """Return the result of make_plan, and its item of main/core. reports: plans of the history, oldest first."""
    known = supplied(registered=registered, history=history(reports) if reports else None)
    sites = [planned_site(site(entries or {"main": raw_entry()}), queue({("main", "core"): have}))]
    read = supply(known, as_of=NOW - supply_age_s)
    result = make_plan(demand(group(count=jobs)), read, sites, NOW, 900, options={"guard": guard})
    return result, next(item for item in result["plan"] if item.entry == "main")


def orders(*arguments, **more):
    """Return True if the plan orders glideins."""
    item = planned(*arguments, **more)[1]
    return item.present > item.counted + item.running


def test_an_empty_queue_after_a_full_one_orders_nothing_and_gives_the_reason():
    result, item = planned({}, FIELD_TRIAL, registered=4)
    why = (
        "the queue shows only 0 glideins, but by earlier reports 7 should be there: "
        "nothing is ordered until 2 cycles confirm it"
    )
    assert item.present == 0
    assert why in item.reason
    assert result["notes"] == [f"lab: {why}"]


def test_it_is_believed_after_two_cycles():
    assert not orders({}, dict(FIELD_TRIAL, age_s=600), dict(NOTHING, registered=0))
    assert orders({}, dict(FIELD_TRIAL, age_s=900), dict(NOTHING, age_s=600), dict(NOTHING, registered=0))


def test_launched_glideins_count_if_the_report_was_too_early_for_them():
    launched = dict(NOTHING, launched=6, registered=0)
    assert not orders({}, launched)


def test_other_sites_do_not_order_for_the_jobs_of_the_glideins_that_the_queue_does_not_show():
    sites = [planned_site(site(), queue({("main", "core"): {}})), planned_site(site(name="other"), queue(name="other"))]
    known = supplied(registered=4, history=history([FIELD_TRIAL]))
    result = make_plan(demand(group(count=5)), supply(known), sites, NOW, 900)
    assert [(item.site, item.present) for item in result["plan"]] == [("lab", 0), ("other", 0)]
    assert result["lease_requests"]["lab"] == {"main": {"a": 5}}


def test_queued_glideins_keep_their_jobs():
    report = dict(FIELD_TRIAL, queued=20)
    assert planned({"queued": 2}, report, registered=4)[1].present == 2


def test_fewer_running_glideins_than_are_registered_order_nothing():
    result, item = planned({"queued": 3}, registered=4)
    why = "the queue shows only 0 running glideins, but 4 are registered: nothing is ordered until 2 cycles confirm it"
    assert item.present == 3
    assert why in item.reason
    assert why in result["notes"][0]


def test_a_contradiction_that_stands_is_believed():
    reports = [dict(NOTHING, age_s=900), dict(NOTHING, age_s=600), NOTHING]
    assert not orders({}, reports[2], registered=4)
    assert orders({}, *reports, registered=4)


def test_a_collector_that_was_not_read_lately_contradicts_nothing():
    assert orders({}, registered=4, supply_age_s=301)


def test_glideins_that_are_cleaned_up_or_suspended_are_there():
    assert orders({"completing": 4}, FIELD_TRIAL, registered=4)
    assert orders({"sick": 4}, FIELD_TRIAL, registered=4)


# Normal operation.


def test_a_first_cycle_orders():
    assert orders({})


def test_glideins_that_have_ended_by_themselves_are_not_missing():
    running = dict(FIELD_TRIAL, queued=0, running=100, registered=100)
    assert orders({"running": 10}, running, registered=10)


def test_glideins_that_all_ended_at_once_are_not_missing_when_the_collector_has_seen_it():
    assert orders({}, dict(FIELD_TRIAL, queued=0, running=100, registered=100), registered=0)


def test_where_it_has_not_they_are_missing_for_two_cycles():
    full = dict(FIELD_TRIAL, queued=0, running=100, registered=100)
    gone = dict(full, running=0)
    assert not orders({}, full, registered=100)
    assert not orders({}, dict(full, age_s=600), gone, registered=100)
    assert orders({}, dict(full, age_s=900), dict(gone, age_s=600), gone, registered=100)


def test_a_burst_that_started_and_ended_between_two_reports_is_not_missing():
    queued = dict(FIELD_TRIAL, age_s=600, queued=20, running=0, registered=0)
    ran = dict(FIELD_TRIAL, queued=0, running=20, registered=20)
    assert orders({}, queued, ran, registered=0)


def test_an_empty_collector_after_a_restart_raises_no_doubt():
    assert orders({"running": 4}, dict(FIELD_TRIAL, queued=0), registered=0)


def test_a_few_missing_glideins_raise_no_doubt():
    assert orders({}, dict(FIELD_TRIAL, queued=2, running=0, registered=0))
    assert orders({"running": 2}, registered=4)


def test_an_old_report_raises_no_doubt():
    assert orders({}, dict(FIELD_TRIAL, age_s=3700, registered=0))


def test_it_can_be_switched_off():
    assert orders({}, FIELD_TRIAL, registered=4, hold_readings=0)


def test_all_entries_of_a_site_are_counted_together():
    entries = {"main": raw_entry(), "other": raw_entry()}
    result = planned({"running": 4}, dict(FIELD_TRIAL, queued=4), registered=4, entries=entries)[0]
    assert result["notes"] == []
