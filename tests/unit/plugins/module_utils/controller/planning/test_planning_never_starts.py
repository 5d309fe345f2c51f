# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of queued glideins that the batch system reports as never able to start."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    supply,
)

NEVER = {"sick": 2, "never_starts": 2, "sick_reasons": ["Can Never Run: Insufficient amount of resource: ncpus"]}
CLOSED = (
    "lab/main/core gets no new glidein while 2 queued glideins cannot start "
    "(Can Never Run: Insufficient amount of resource: ncpus)"
)


def planned(jobs, have, entries=None):
    entries = entries or {"main": raw_entry()}
    sites = [planned_site(site(entries), queue({("main", "core"): have}))]
    result = make_plan(demand(group(count=jobs)), supply(), sites, NOW, 900)
    return result, {(item.entry, item.shape): item for item in result["plan"]}


def test_no_second_glidein_of_the_same_request_is_ordered_and_the_reason_is_given():
    result, items = planned(5, NEVER)
    assert (items[("main", "core")].present, items[("main", "core")].kept_sick) == (0, 1)
    assert CLOSED in items[("main", "core")].reason
    assert result["unserved"] == [
        {"group": "a", "count": 5, "reason": f"no more glideins where these jobs fit: {CLOSED}"}
    ]


def test_its_jobs_go_to_other_shapes_and_entries():
    entries = {"main": raw_entry(shapes={"core": shape(), "pair": shape(cpus=2, memory_mb=4000)})}
    assert planned(4, NEVER, entries)[1][("main", "pair")].present == 2
    entries = {"main": raw_entry(priority=9), "other": raw_entry()}
    assert planned(4, NEVER, entries)[1][("other", "core")].present == 4


def test_other_queued_glideins_of_the_entry_still_serve_jobs():
    items = planned(3, dict(NEVER, queued=3))[1]
    assert (items[("main", "core")].present, items[("main", "core")].serves) == (3, {"a": 3})


def test_other_sick_glideins_close_nothing():
    item = planned(5, {"sick": 2, "sick_reasons": ["JobHeldUser"]})[1][("main", "core")]
    assert (item.present, item.kept_sick) == (5, 0)
