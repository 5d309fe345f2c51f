# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the plan's stages do not change their input and return the same result for the same input."""

import copy

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import guard, make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.assign import (
    pack,
    redundant_glideins,
    subtract,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import entry_shapes
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import read_pool
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import job_classes_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limits import Usage
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.match import Fit
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.options import plan_options
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.plan import decided_items
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    supplied,
    supply,
)

NODE = {"node": shape(cpus=4, memory_mb=8000)}
SLOT = {"cpus": 2, "memory_mb": 4000, "disk_mb": 9000, "gpus": 0, "count": 1}


def inputs():
    """Return demand, supply and sites with free, starting, queued, overdue and surplus glideins, and a limit."""
    have = {
        ("a", "node"): {"queued": 2, "running": 2, "queued_since": [[NOW - 4000, 1], [NOW - 60, 1]]},
        ("b", "node"): {"queued": 3, "oldest_queued_s": 60},
    }
    entries = {
        "a": raw_entry(shapes=NODE, limits={"queued": 4}),
        "b": raw_entry(shapes=NODE, accept={"gpus": {"min": 1}}),
    }
    known = supply(supplied("a", "node", 1, [SLOT]), demand_history=[[NOW - 290, 1]])
    return demand(group("x", 20000), group("y", 9, cpus=2)), known, [planned_site(site(entries), queue(have))]


def twice(stage, *arguments):
    """Call the stage twice with the same arguments; return the second result."""
    before = copy.deepcopy(arguments)
    first = stage(*arguments)
    kept = copy.deepcopy(first)
    assert stage(*arguments) == kept
    assert (arguments, first) == (before, kept)
    return first


def test_each_stage_returns_a_new_value_and_leaves_its_input_as_it_is():
    wanted, known, sites = inputs()
    settings = plan_options()
    matcher = Matcher(NOW)
    pool = read_pool(wanted, known, sites, matcher, NOW, 900)
    job_classes = job_classes_of(pool.groups, matcher, pool.sites, settings["order"], NOW)
    shapes = twice(entry_shapes, pool, NOW)
    shapes, findings = twice(guard.assess, shapes, pool, settings["guard"], NOW)
    shapes = twice(guard.withdraw, shapes, findings)
    fit = Fit(shapes, matcher)
    matches = [fit.masks(one)[0] for one in job_classes]
    queued = [one.queued for one in shapes]
    subtracted = twice(subtract, job_classes, matches, shapes, queued)
    usage = twice(Usage.of, pool.sites, shapes, queued, settings["limits"], findings.unproven)
    packed = twice(pack, job_classes, matches, shapes, subtracted.unplaced, usage, False)
    assert [sum(packed.ordered), sum(one.jobs for one in packed.unplaced)] == [2, 19998]
    queued = [number + new for number, new in zip(queued, packed.ordered)]
    extra = twice(redundant_glideins, job_classes, matches, shapes, subtracted.placements, subtracted.unused)
    assert extra.glideins == [0, 0]
    items = twice(decided_items, shapes, job_classes, queued, subtracted, packed, extra)
    assert [one.queued for one in items] == [4, 3]
    # The demand has jumped from 1 to 20009 idle jobs. The guard adds nothing: the jobs of two new glideins wait.
    corrected, held_back = twice(guard.apply, items, shapes, findings, pool.sites, settings, NOW)
    assert [one.queued for one in corrected] == [2, 3]
    assert held_back == {(group, "the guard orders no glidein for them yet"): 3 for group in ("x", "y")}


def test_a_plan_leaves_its_input_as_it_is():
    arguments = inputs()
    before = copy.deepcopy(arguments)
    assert make_plan(*arguments, NOW, 900) == make_plan(*before, NOW, 900)
    assert arguments == before
