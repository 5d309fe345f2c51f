#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: plan
short_description: Decide how many glideins should be where, and why
version_added: 0.1.0
description:
  - "Decide for all sites at once how many glideins should be present (queued and running) of every entry and shape. The
    input is the demand, the supply, the queues and the sites' configuration."
  - A job fits a shape if the machine ad that a glidein will have there satisfies the job's request, run time and
    Requirements, and if the entry accepts the job.
  - Jobs are first given to free slots, then to starting glideins, then to queued ones. Each remaining job is given to a
    new glidein of the smallest shape that fits. Several jobs share a glidein. Entries are used in the order of their
    priority, within the limits.
  - A queued glidein that no job needs is not in the plan. A running glidein always is.
  - Then O(guard) corrects the plan where its input is doubtful.
  - Free slots of other machines of the pool count as supply. The plan has no items for them.
  - Nothing is changed if demand or supply is too old, or if the demand server does not send the jobs' Requirements. A
    site whose queue is not known is left as it is.
  - Runs on the controller and only computes.
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
          - Name of the site. Sites with the same name are all left out, with an error.
        type: str
        required: true
      scheduler:
        description:
          - The site's batch system, as for M(glidein.ops.queue_info). It is checked and does not change the plan.
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
      budget:
        description:
          - The core-hours that all entries of the site together may use, C(core_hours), in each C(month) or C(year) of
            UTC (C(per), by default C(month)). The same mapping as the key C(budget) of an entry.
        type: dict
        default: {}
      eagerness:
        description:
          - How many more glideins than its jobs need the site's entries get, so that the jobs wait less; the default of
            C(eagerness) of an entry. A name or its number.
          - C(certain) (0, the default) orders no more than the jobs need, for each job at one entry.
          - C(roomy) (1) gives a glidein that has not started jobs for half of it.
          - C(redundant) (2) orders a second time, at one other entry of this step, for jobs that wait for a queued
            glidein. What is left is withdrawn when the jobs have started.
          - C(everywhere) (3) orders for them at each entry of this step, and gives a glidein that has not started jobs
            for a quarter of it.
        type: raw
      queue:
        description:
          - The site's queue, RV(glidein.ops.queue_info#module:queue) (a mapping), or null when it could not be read.
        type: raw
      error:
        description:
          - The reason why the queue could not be read. A site with an error is left as it is.
        type: str
  max_demand_age:
    description:
      - Seconds after which demand and supply are too old to act upon.
    type: int
    default: 900
  now:
    description:
      - The time to plan for, in epoch seconds. The default is the current time.
    type: int
  allocation:
    description:
      - How entries of one priority share the jobs. V(priority) fills one after the other, in the order of
        their names.
        V(spread) orders the next glidein from the entry that has the fewest cores for its C(weight).
    type: str
    choices: [priority, spread]
    default: priority
  order:
    description:
      - The order in which groups of jobs are served, large values first. C(-) before a name puts small values first.
        The group with the oldest job is first among equals.
    type: list
    elements: str
    choices: [cpus, -cpus, memory, -memory, disk, -disk, gpus, -gpus, count, -count, runtime, -runtime]
    default: [gpus, memory, cpus, disk]
  limits:
    description:
      - Limits of the whole deployment. A limit that is not set does not exist.
    type: dict
    default: {}
    suboptions:
      queued:
        description:
          - Glideins that wait in the sites' queues.
        type: int
      total:
        description:
          - Glideins that wait or run.
        type: int
      per_cycle:
        description:
          - Glideins that one plan orders.
        type: int
      cores:
        description:
          - Cores of all glideins that wait or run.
        type: int
      gpus:
        description:
          - GPUs of all glideins that wait or run.
        type: int
  guard:
    description:
      - Rules that correct the plan where its input is doubtful, by the history that the demand server keeps.
    type: dict
    default: {}
    suboptions:
      enabled:
        description:
          - Whether the rules are applied.
        type: bool
        default: true
      ramp_first:
        description:
          - Glideins that may be queued or starting at an entry without registered glideins so far.
        type: int
        default: 25
      ramp_factor:
        description:
          - Number of further unproven glideins for each glidein that has registered.
        type: int
        default: 4
      probe_failures:
        description:
          - If at least so many glideins of an entry have failed, and more than have worked, it gets one at a time.
        type: int
        default: 3
      cancel_delay:
        description:
          - Seconds that queued glideins stay in the queue when no job needs them.
          - The earlier name C(patience) is an alias.
        type: int
        default: 600
        aliases: [patience]
      overdue:
        description:
          - Seconds after which the plan no longer relies on a queued glidein. Its jobs may be served at other
            entries. It stays queued, and counts towards limits, as long as there are idle jobs that it could run. V(0)
            relies on it for ever.
          - The default is two cycles of five minutes.
        type: int
        default: 600
      jump_factor:
        description:
          - A demand of more than so many times the earlier one is not believed at once. Neither is a fall to nothing.
        type: int
        default: 100
      jump_least:
        description:
          - Fewer idle jobs than this count as this many.
        type: int
        default: 100
      hold_readings:
        description:
          - Number of readings during which the last plan is kept when the demand is implausible.
          - For as many cycles nothing is ordered at a site whose queue shows far fewer glideins than its last reports,
            or far fewer running ones than are registered. V(0) switches both off.
        type: int
        default: 2
      reading:
        description:
          - Seconds between two readings.
        type: int
        default: 300
  explain:
    description:
      - Id of a demand group. RV(explanation) then gives the reason why each entry and shape serves this group or not.
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
      description: Glideins that should be queued or running; null if the entry is left as it is because its
        queue is not known.
      type: int
      sample: 5
    wanted:
      description: The same before the guard corrected it; null where not known.
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
      description: Glideins that can never start and stay queued, at most one. As long as it is queued, no other one of
        the same request is ordered. Null where not known.
      type: int
      sample: 0
    overdue:
      description: Queued glideins that stay and that the plan does not rely on, see O(guard.overdue); null where not
        known.
      type: int
      sample: 0
    cpus:
      description: Cores of one glidein.
      type: int
      sample: 28
    registered:
      description: Glideins that the collector knows.
      type: int
      sample: 4
    redundant:
      description: Number of jobs by demand group that queued redundant glideins are for; O(sites[].eagerness).
      type: dict
      sample: {}
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
      description: The reason, in one sentence.
      type: str
      sample: "2 idle jobs to serve: 2 in queued or new glideins; 0 running, 1 queued, 1 to add"
as_of:
  description: The time of the plan, in epoch seconds; O(glidein.ops.glideins#module:plan_as_of).
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
  description: Notes about the plan as a whole, such as that the demand is not believed.
  returned: success
  type: list
  elements: str
  sample: []
lease_requests:
  description: By site and entry, the jobs of each demand group that starting, queued and new glideins are meant for.
    Empty when demand or supply is too old. The option O(glidein.ops.demand_lease#module:lease_requests).
  returned: success
  type: dict
  sample: {lab: {main: {3f2a9c: 28}}}
claims:
  description: The same as RV(lease_requests), under its earlier name.
  returned: success
  type: dict
  sample: {lab: {main: {3f2a9c: 28}}}
errors:
  description: Sites with an invalid configuration, and names that several sites have, with C(site) and C(error). The
    plan has no items for them.
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
  description: One mapping per C(site), C(entry) and C(shape) with the number of jobs it C(serves), whether the jobs
    fit there (C(fits)), whether only the negotiator's decision keeps them away (C(passed_over)), and the C(reason).
  returned: success, empty without O(explain)
  type: list
  elements: dict
  sample:
    - {site: lab, entry: main, shape: core, serves: 3, fits: true, passed_over: false, reason: fits 1 job per glidein}
"""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    CLASSAD_ERROR,
    MissingLibraryError,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.options import (
    options_of,
    plan_argument_spec,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.pool import read_sites
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError

SITE_SPEC = {
    "site": {"type": "str", "required": True},
    "scheduler": {"type": "str", "required": True},
    "scheduler_options": {"type": "dict", "default": {}},
    "entries": {"type": "dict", "required": True},
    "limits": {"type": "dict", "default": {}},
    "budget": {"type": "dict", "default": {}},
    "eagerness": {"type": "raw"},
    "queue": {"type": "raw"},
    "error": {"type": "str"},
}


def main():
    module = AnsibleModule(
        argument_spec={
            "demand": {"type": "dict", "required": True},
            "supply": {"type": "dict", "required": True},
            "deployment": {"type": "str", "required": True},
            "sites": {"type": "list", "elements": "dict", "required": True, "options": SITE_SPEC},
            "max_demand_age": {"type": "int", "default": 900},
            "now": {"type": "int"},
            "explain": {"type": "str"},
            **plan_argument_spec(),
        },
        supports_check_mode=True,
    )
    params = module.params
    now_s = int(time.time()) if params["now"] is None else params["now"]
    try:
        sites, errors = read_sites(params["deployment"], params["sites"], make_scheduler)
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
    module.exit_json(changed=False, as_of=now_s, errors=errors, claims=result["lease_requests"], **result)


if __name__ == "__main__":
    main()
