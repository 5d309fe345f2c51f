#!/usr/bin/python
# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: plan
short_description: Decide how many glideins should be where, and why
version_added: 0.1.0
description:
  - "Decides for all sites at once, from demand, supply, queues and the sites' configuration: for every entry and shape,
    how many glideins should be present (queued and running)."
  - Jobs fit where their request, run time and Requirements are satisfied by the machine ad that a glidein will have
    there, and where the entry accepts them.
  - Jobs are first given to free slots, to glideins that are starting, and to queued ones. What is left is packed by all
    resources into the smallest shape that fits, entry by entry in order of their priority, within the limits. A queued
    glidein that no job needs is left out of the count; a running one never is.
  - Then O(guard) holds back what is doubtful. A queued glidein that has waited for too long serves nobody.
  - Free slots of other machines of the pool are counted too. They have no items.
  - Nothing is changed when demand or supply is too old, or when the demand server does not tell what jobs require, and
    nothing at a site whose queue is not known.
  - Runs on the controller and does nothing but compute.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_glidein
attributes:
  check_mode:
    support: full
    details: The module only computes.
  diff_mode:
    support: none
options:
  demand:
    description:
      - Idle jobs, RV(glidein.ops.demand_info#module:demand).
    type: dict
    required: true
  supply:
    description:
      - Registered glideins, RV(glidein.ops.demand_info#module:supply).
    type: dict
    required: true
  deployment:
    description:
      - Name of the deployment.
    type: str
    required: true
  sites:
    description:
      - The sites to plan for.
    type: list
    elements: dict
    required: true
    suboptions:
      site:
        description:
          - Name of the site. Sites that have one name in common are all left out, with an error.
        type: str
        required: true
      scheduler:
        description:
          - The site's batch system, as for M(glidein.ops.queue_info). Checked, like the entries; the plan does not
            depend on it.
        type: str
        required: true
      scheduler_options:
        description:
          - Settings of the batch system, as for M(glidein.ops.queue_info).
        type: dict
        default: {}
      entries:
        description:
          - The site's entries, as for M(glidein.ops.queue_info).
        type: dict
        required: true
      limits:
        description:
          - Limits of the whole site, as for M(glidein.ops.queue_info).
        type: dict
        default: {}
      queue:
        description:
          - What the site has, RV(glidein.ops.queue_info#module:queue) (a mapping), or null when it could not be read.
        type: raw
      error:
        description:
          - Why the queue could not be read. A site with an error is left as it is.
        type: str
  max_demand_age:
    description:
      - Seconds after which demand and supply are too old to act upon.
    type: int
    default: 900
  now:
    description:
      - The time to plan for, in epoch seconds. Without it, the time of day.
    type: int
  allocation:
    description:
      - How entries of one priority share the jobs. V(priority) fills one after the other, in order of their names;
        V(spread) evens out the cores that they have, for their C(weight).
    type: str
    choices: [priority, spread]
    default: priority
  order:
    description:
      - "In which order groups of jobs are served: by C(gpus), C(memory), C(cpus), C(disk), C(count) or C(runtime),
        large values first, or small ones with C(-) before the name. The oldest jobs are first among equals."
    type: list
    elements: str
    default: [gpus, memory, cpus, disk]
  limits:
    description:
      - Limits of the whole deployment, C(queued), C(total), C(per_cycle), C(cores) and C(gpus). Without a key there
        is no such limit.
    type: dict
    default: {}
  guard:
    description:
      - What is held back, by the history that the demand server keeps.
    type: dict
    default: {}
    suboptions:
      enabled:
        description:
          - Whether anything is held back at all.
        type: bool
        default: true
      ramp_first:
        description:
          - Glideins that may be queued or starting at an entry of which no glidein has registered.
        type: int
        default: 25
      ramp_factor:
        description:
          - How many more for each one that has.
        type: int
        default: 4
      probe_failures:
        description:
          - When so many glideins of an entry have failed, and more than have worked, it gets one at a time.
        type: int
        default: 3
      patience:
        description:
          - Seconds for which queued glideins that serve no job keep their place.
        type: int
        default: 600
      overdue:
        description:
          - Seconds after which a queued glidein serves nobody any more. Its jobs may be served at other entries; it
            stays, and takes its place in limits, as long as jobs wait that it could run. V(0) counts on it for ever.
          - The default is two cycles of five minutes.
        type: int
        default: 600
      jump_factor:
        description:
          - A demand of more than so many times what it was is not believed at once, nor is one that falls to nothing.
        type: int
        default: 100
      jump_least:
        description:
          - Fewer idle jobs than this count as this many.
        type: int
        default: 100
      hold_readings:
        description:
          - For how many readings the last plan is held then.
          - For as many cycles nothing is ordered at a site whose queue shows far fewer glideins than its last reports,
            or far fewer running ones than are registered. V(0) for none.
        type: int
        default: 2
      reading:
        description:
          - Seconds between two readings.
        type: int
        default: 300
  explain:
    description:
      - Id of a demand group. RV(explanation) then says for every entry and shape why it serves this group or not.
    type: str
requirements:
  - htcondor (Python library, on the host where the module runs), when jobs have Requirements
seealso:
  - module: glidein.ops.demand_info
  - module: glidein.ops.demand_lease
  - module: glidein.ops.queue_info
  - module: glidein.ops.glideins
"""

EXAMPLES = r"""
- name: Plan for all sites
  glidein.ops.plan:
    deployment: "{{ glidein_deployment }}"
    demand: "{{ glidein_now.demand }}"
    supply: "{{ glidein_now.supply }}"
    sites:
      - site: lab
        scheduler: slurm
        entries:
          main:
            queue: debug
            walltime: 2h
            shapes:
              core: {cpus: 1, memory_mb: 2000, disk_mb: 10000}
        queue: "{{ hostvars['slurm'].glidein_queue.queue }}"
  delegate_to: localhost
  run_once: true
  register: glidein_plan
"""

RETURN = r"""
plan:
  description: One item per site, entry and shape.
  returned: success
  type: list
  elements: dict
  contains:
    site:
      description: Name of the site.
      type: str
      sample: lab
    entry:
      description: Name of the entry.
      type: str
      sample: main
    shape:
      description: Name of the shape.
      type: str
      sample: core
    present:
      description: Glideins that should be queued or running; null where the entry is to be left as it is because its
        queue is not known.
      type: int
      sample: 5
    wanted:
      description: The same before the guard kept queued glideins or held the last plan; null where not known.
      type: int
      sample: 5
    queued:
      description: Glideins that are queued; null where not known.
      type: int
      sample: 1
    running:
      description: Glideins that run; null where not known.
      type: int
      sample: 4
    sick:
      description: Glideins that are held, suspended or can never start; null where not known.
      type: int
      sample: 0
    kept_sick:
      description: Glideins that can never start and are to stay all the same, at most one. As long as it is queued, no
        other one of the same request is ordered. Null where not known.
      type: int
      sample: 0
    overdue:
      description: Glideins that are to stay in the queue and serve nobody, see O(guard); null where not known.
      type: int
      sample: 0
    registered:
      description: Glideins that the collector knows.
      type: int
      sample: 4
    serves:
      description: Number of jobs by demand group that starting, queued and new glideins are meant for.
      type: dict
      sample: {3f2a9c: 28}
    waits:
      description: By demand group, the C(jobs) that queued and new glideins are meant for, and how many of them fit
        into one glidein (C(per_glidein)).
      type: dict
      sample: {3f2a9c: {jobs: 28, per_glidein: 28}}
    reason:
      description: One sentence that says why.
      type: str
      sample: "2 idle jobs to serve: 2 in queued or new glideins; 0 running, 1 queued, 1 to add"
as_of:
  description: When the plan was made, in epoch seconds; O(glidein.ops.glideins#module:plan_as_of).
  returned: success
  type: int
  sample: 1795211280
unserved:
  description: Idle jobs that no glidein is ordered for, by C(group), with C(count) and C(reason).
  returned: success
  type: list
  elements: dict
  sample: [{group: 77aa01, count: 3, reason: "no shape fits: lab/main/core: asks for 8 cpus, the shape has 1"}]
unserved_at:
  description: Of the largest groups of them, by group and site, why the site serves no more of these jobs.
  returned: success
  type: dict
  sample: {77aa01: {lab: "main/core: asks for 8 cpus, the shape has 1"}}
notes:
  description: What is to be said about the plan as a whole, such as that the demand is not believed.
  returned: success
  type: list
  elements: str
  sample: []
claims:
  description: By site and entry, the jobs of each demand group that starting, queued and new glideins are meant for.
    Empty when demand or supply is too old.
  returned: success
  type: dict
  sample: {lab: {main: {3f2a9c: 28}}}
errors:
  description: Sites whose configuration is wrong, and names that several sites have; they have no items. C(site) and
    C(error).
  returned: success
  type: list
  elements: dict
  sample: []
table:
  description: The plan as lines of at most 100 columns.
  returned: success
  type: list
  elements: str
  sample:
    - SITE  ENTRY  SHAPE  PRESENT  QUEUED  RUNNING  WHY
explanation:
  description: One mapping per C(site), C(entry) and C(shape) with the number of jobs it C(serves) and the C(reason).
  returned: success, empty without O(explain)
  type: list
  elements: dict
  sample: [{site: lab, entry: main, shape: core, serves: 3, reason: fits 1 job per glidein}]
"""

import collections
import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import check_expressions, make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    CLASSAD_ERROR,
    MissingLibraryError,
)
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers import make_scheduler

SITE_SPEC = {
    "site": {"type": "str", "required": True},
    "scheduler": {"type": "str", "required": True},
    "scheduler_options": {"type": "dict", "default": {}},
    "entries": {"type": "dict", "required": True},
    "limits": {"type": "dict", "default": {}},
    "queue": {"type": "raw"},
    "error": {"type": "str"},
}


GUARD_SPEC = {
    "enabled": {"type": "bool", "default": True},
    "ramp_first": {"type": "int", "default": 25},
    "ramp_factor": {"type": "int", "default": 4},
    "probe_failures": {"type": "int", "default": 3},
    "patience": {"type": "int", "default": 600},
    "overdue": {"type": "int", "default": 600},
    "jump_factor": {"type": "int", "default": 100},
    "jump_least": {"type": "int", "default": 100},
    "hold_readings": {"type": "int", "default": 2},
    "reading": {"type": "int", "default": 300},
}


def options_of(params):
    """Return the options of make_plan."""
    guard = dict(params["guard"] or {})
    if guard.pop("enabled", True):
        guard = {f"{key}_s" if key in ("patience", "overdue", "reading") else key: guard[key] for key in guard}
    else:
        guard = False
    return dict({key: params[key] for key in ("allocation", "order", "limits")}, guard=guard)


def read_sites(deployment, raw_sites):
    """Return (sites for make_plan, errors of those whose configuration is wrong).

    Sites of one name are all left out, with one error: their glideins could not be told apart.
    """
    number = collections.Counter(raw["site"] for raw in raw_sites)
    errors = [
        {
            "site": name,
            "error": f"glidein_site: {name!r} is the name of {number[name]} sites of the inventory; allowed: a name of "
            "its own for each. They are left out of the plan.",
        }
        for name in sorted(number)
        if number[name] > 1
    ]
    sites = []
    for raw in raw_sites:
        if number[raw["site"]] > 1:
            continue
        try:
            site = normalise_site(deployment, raw["site"], raw["entries"], raw["limits"])
            make_scheduler(raw["scheduler"], raw["scheduler_options"], site["entries"])
            check_expressions([{"site": site}])
        except InputError as error:
            errors.append({"site": raw["site"], "error": str(error)})
            continue
        sites.append({"site": site, "queue": raw["queue"] or None, "error": raw["error"] or None})
    return sites, errors


def main():
    module = AnsibleModule(
        argument_spec={
            "demand": {"type": "dict", "required": True},
            "supply": {"type": "dict", "required": True},
            "deployment": {"type": "str", "required": True},
            "sites": {"type": "list", "elements": "dict", "required": True, "options": SITE_SPEC},
            "max_demand_age": {"type": "int", "default": 900},
            "now": {"type": "int"},
            "allocation": {"type": "str", "choices": ["priority", "spread"], "default": "priority"},
            "order": {"type": "list", "elements": "str", "default": ["gpus", "memory", "cpus", "disk"]},
            "limits": {"type": "dict", "default": {}},
            "guard": {"type": "dict", "default": {}, "options": GUARD_SPEC},
            "explain": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    now_s = int(time.time()) if params["now"] is None else params["now"]
    try:
        sites, errors = read_sites(params["deployment"], params["sites"])
        result = make_plan(
            params["demand"],
            params["supply"],
            sites,
            now_s,
            params["max_demand_age"],
            params["explain"],
            options_of(params),
        )
    except MissingLibraryError as error:
        module.fail_json(msg=f"{missing_required_lib('htcondor')} {error}", exception=CLASSAD_ERROR)
    except GlideinError as error:
        module.fail_json(msg=str(error), **error.details())
    module.exit_json(changed=False, as_of=now_s, errors=errors, **result)


if __name__ == "__main__":
    main()
