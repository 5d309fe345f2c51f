# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a queue that shows far fewer glideins than expected."""

import pytest
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
from ansible_collections.glidein.ops.tests.unit.support.plan_options import options

FIELD_TRIAL = {"age_s": 300, "queued": 3, "running": 4, "registered": 4, "wanted": 7}
NOTHING = {"age_s": 300, "queued": 0, "running": 0, "registered": 4, "wanted": 7}


def planned(have, *reports, registered=0, jobs=50, entries=None, supply_age_s=10, **guard):
    """Return the result of make_plan, and its item of main/core. reports: plans of the history, oldest first."""
    known = supplied(registered=registered, history=history(reports) if reports else None)
    sites = [planned_site(site(entries or {"main": raw_entry()}), queue({("main", "core"): have}))]
    read = supply(known, as_of=NOW - supply_age_s)
    result = make_plan(demand(group(count=jobs)), read, sites, NOW, 900, options=options(guard=guard))
    return result, next(item for item in result["plan"] if item.entry == "main")


FULL = dict(FIELD_TRIAL, queued=0, running=100, registered=100)
UNREGISTERED = dict(NOTHING, registered=0)


def at(report, age_s):
    return dict(report, age_s=age_s)


QUEUES = {
    "empty after a full one": ({}, [FIELD_TRIAL], {"registered": 4}, False),
    "missing for one cycle": ({}, [at(FIELD_TRIAL, 600), UNREGISTERED], {}, False),
    "missing for two cycles": ({}, [at(FIELD_TRIAL, 900), at(UNREGISTERED, 600), UNREGISTERED], {}, True),
    "launched after the report": ({}, [dict(UNREGISTERED, launched=6)], {}, False),
    "registered, but not in the queue": ({}, [NOTHING], {"registered": 4}, False),
    "so for two cycles": ({}, [at(NOTHING, 900), at(NOTHING, 600), NOTHING], {"registered": 4}, True),
    "the collector was not read lately": ({}, [], {"registered": 4, "supply_age_s": 301}, True),
    "cleaned up": ({"completing": 4}, [FIELD_TRIAL], {"registered": 4}, True),
    "suspended": ({"sick": 4}, [FIELD_TRIAL], {"registered": 4}, True),
    "the first cycle": ({}, [], {}, True),
    "most ended by themselves": ({"running": 10}, [FULL], {"registered": 10}, True),
    "all ended, which the collector has seen": ({}, [FULL], {"registered": 0}, True),
    "all ended, which it has not seen": ({}, [FULL], {"registered": 100}, False),
    "so for one cycle": ({}, [at(FULL, 600), dict(FULL, running=0)], {"registered": 100}, False),
    "not seen for two cycles": (
        {},
        [at(FULL, 900), dict(FULL, running=0, age_s=600), dict(FULL, running=0)],
        {"registered": 100},
        True,
    ),
    "a burst started and ended between two reports": (
        {},
        [dict(FULL, age_s=600, queued=20, running=0, registered=0), dict(FULL, running=20, registered=20)],
        {},
        True,
    ),
    "the collector was restarted": ({"running": 4}, [dict(FIELD_TRIAL, queued=0)], {}, True),
    "a few are missing": ({}, [dict(FIELD_TRIAL, queued=2, running=0, registered=0)], {}, True),
    "a few registered ones are missing": ({"running": 2}, [], {"registered": 4}, True),
    "an old report": ({}, [dict(FIELD_TRIAL, age_s=3700, registered=0)], {}, True),
    "switched off": ({}, [FIELD_TRIAL], {"registered": 4, "hold_readings": 0}, True),
}


@pytest.mark.parametrize("have, reports, more, ordered", QUEUES.values(), ids=QUEUES)
def test_nothing_is_ordered_while_glideins_are_missing_that_earlier_reports_or_the_collector_show(
    have, reports, more, ordered
):
    item = planned(have, *reports, **more)[1]
    assert (item.present > item.counted + item.running) is ordered


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


def test_all_entries_of_a_site_are_counted_together():
    entries = {"main": raw_entry(), "other": raw_entry()}
    result = planned({"running": 4}, dict(FIELD_TRIAL, queued=4), registered=4, entries=entries)[0]
    assert result["notes"] == []
