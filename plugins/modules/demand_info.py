#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: demand_info
short_description: Read demand and supply of a pool from the demand server
version_added: 0.1.0
description:
  - Asks the demand server for the idle jobs of the pool, grouped by what they request, and for the glideins that have
    registered with the pool's collector.
  - Runs on the controller, once per cycle.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.info
  - glidein.ops.attributes.actiongroup_server
  - glidein.ops.server
options:
  sites:
    description:
      - Sites to plan for. Jobs that these sites have leased count as demand. Jobs that other sites have leased do not.
        Leave out a site whose queue could not be read. It keeps its leases, because its glideins may still start.
      - A name that occurs twice is ignored. The plan leaves such sites out.
      - Without this option, only the site of O(token) is planned for.
    type: list
    elements: str
  attributes:
    description:
      - Names of job attributes by which the server also divides its groups, at most 20. They are the attributes that
        the sites' C(accept_requirements) use. The server uses them from its next query on, for callers with a token.
    type: list
    elements: str
    default: []
  tokens:
    description:
      - Alternative tokens. If O(token) is missing or invalid, or the server refuses it, the module tries these in turn.
        So a site whose token is wrong or not deployed yet does not stop the other sites.
      - Without any token, the server does not return the jobs' Requirements, and M(glidein.ops.plan) changes nothing.
    type: list
    elements: str
    default: []
seealso:
  - module: glidein.ops.plan
  - module: glidein.ops.demand_report
"""

EXAMPLES = r"""
- name: Read demand and supply
  glidein.ops.demand_info:
    server_url: "{{ glidein_demand_url }}"
    tokens: ["{{ hostvars['slurm'].glidein_demand_token }}", "{{ hostvars['sge'].glidein_demand_token }}"]
    sites: [lab, away]
  delegate_to: localhost
  run_once: true
  register: glidein_now
"""

RETURN = r"""
demand:
  description: Idle jobs, the server's C(get_demand).
  returned: success
  type: dict
  contains:
    as_of:
      description: The time at which the schedds were read, in epoch seconds; null before the first reading.
      type: int
      sample: 1795211273
    schedds:
      description: Which schedds C(answered) (names) and which C(failed) (C(name) and C(error)).
      type: dict
      sample: {answered: [cm.example.org], failed: []}
    groups:
      description:
        - Groups of idle jobs with equal requests. Memory and disk are in MiB, times in seconds.
        - C(count) is the number of jobs without a lease of another site (C(leased) is the number with one). C(stale) of
          them belong to schedds that have not answered for long. C(over_limit) is the number of further jobs that
          cannot start yet, whatever glideins exist.
      type: list
      elements: dict
      sample:
        - {id: 3f2a9c, count: 120, cpus: 1, memory_mb: 2048, disk_mb: 1000, gpus: 0, requirements: null, attributes: {},
           expressions: {}, max_runtime_s: 7200, first_job: "1234.0", leased: 0, stale: 0, unmaterialized: 0,
           over_limit: 0}
    attributes:
      description: Names of the job attributes that groups are divided by, besides those that Requirements refer to.
      type: list
      elements: str
      sample: [ProjectName]
    paused:
      description: Whether the server is paused. Every lease is then zero, and cycles submit nothing.
      type: bool
      sample: false
supply:
  description: Registered glideins, the server's C(get_supply).
  returned: success
  type: dict
  contains:
    as_of:
      description: The time at which the collector was read, in epoch seconds; null before the first reading.
      type: int
      sample: 1795211272
    error:
      description: Why the last reading failed, or null.
      type: str
      sample: null
    entries:
      description: Glideins by site, entry and shape. An entry without registered glideins is included if the
        server has its history or a sample.
      type: list
      elements: dict
      contains:
        site:
          description: Name of the site, by the identity that authenticated.
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
        registered:
          description: Glideins in the collector.
          type: int
          sample: 3
        retired:
          description: The number of them that accept no further job.
          type: int
          sample: 0
        cpus:
          description: Their cores.
          type: int
          sample: 3
        cpus_claimed:
          description: The number of their cores that jobs have claimed.
          type: int
          sample: 1
        free:
          description: Free resources of them (memory and disk in MiB), with the number of slots that have them
            (C(count)) and the full half hour, in epoch seconds, by which jobs have to end there (C(until), null if
            unknown).
          type: list
          elements: dict
          sample: [{cpus: 1, memory_mb: 2000, disk_mb: 10000, gpus: 0, count: 1, until: 1795233600}]
        passed_over:
          description: The same for slots that no waiting job took in the last three negotiation cycles.
          type: list
          elements: dict
          sample: [{cpus: 1, memory_mb: 500, disk_mb: 10000, gpus: 0, count: 1, until: 1795233600}]
        oldest:
          description: Start of the oldest one, in epoch seconds, or null.
          type: int
          sample: 1795210000
        newest:
          description: Start of the newest one, in epoch seconds, or null.
          type: int
          sample: 1795211000
        sample:
          description: Attributes of the machine ad of one of them, now or earlier, as if no job were on it; null when
            none was seen, and for callers without a token.
          type: dict
          sample: {Arch: X86_64, OpSysAndVer: Debian13, Cpus: 1, Memory: 2000}
        history:
          description:
            - Statistics of the glideins that were first seen in the last C(window_s) seconds, or null.
            - C(plans) has the values of the last 20 reports.
            - C(started) counts glideins that were reported as running, and C(registered) those that the collector
              listed. C(never_registered) counts those that ran without registering. C(jobs_failing) counts those that
              ended because jobs failed fast there. C(ended_early) counts those, and glideins that left the collector
              within about five minutes. A glidein that reported a job which did not fail is in neither.
            - A glidein that started and ended between two reports counts if its summary was reported.
            - C(failures) lists C(exit_status), C(count), C(last) (epoch seconds) and C(reason) of those that never
              registered or ended early, except those that ended with status 0 or by a signal.
            - C(wait_median_s) and C(wait_p90_s) are the seconds that they waited in the queue.
            - Unknown values are null.
          type: dict
          sample: {window_s: 21600, plans: [], started: 5, registered: 4, never_registered: 1, ended_early: 0,
            jobs_failing: 0, failures: [], wait_median_s: 340, wait_p90_s: 900}
        work:
          description:
            - The work of its glideins that ended in the last seven days (since C(since), in epoch seconds), as they
              reported it; null if none ended.
            - C(granted_core_s) is the number of core-seconds that the batch system granted to them, and C(busy_core_s)
              the number that jobs used. C(jobs) is the number of jobs that ended there, and C(jobs_failed) the number
              of those that failed.
          type: dict
          sample: {since: 1794700800, glideins: 12, granted_core_s: 86400, busy_core_s: 70000, jobs: 40, jobs_failed: 1}
    others:
      description: Number of machines in the pool that are not glideins.
      type: int
      sample: 0
    others_free:
      description: The free resources of those machines, as in C(entries[].free).
      type: list
      elements: dict
      sample: []
    others_cpus:
      description: Their cores.
      type: int
      sample: 0
    others_cpus_claimed:
      description: The number of their cores that jobs have claimed.
      type: int
      sample: 0
    problems:
      description: Problems of registered machines, such as one that claims to belong to another site.
      type: list
      elements: str
      sample: []
    demand_history:
      description: Idle jobs of the last hour, at most one reading in five minutes, as pairs of epoch seconds and
        number.
      type: list
      elements: list
      sample: [[1795210000, 12], [1795211000, 40]]
    core_hours:
      description:
        - The core-seconds of glideins in this month (C(month_core_s), from C(month) on) and this year, by site, entry
          and shape, for the budgets of M(glidein.ops.plan).
        - C(read_at) is the time of the last report that counts, or null, and C(cores) the cores of its running
          glideins.
      type: dict
      sample: {month: 1793491200, year: 1767225600, entries: [{site: lab, entry: main, shape: core,
        month_core_s: 7200, year_core_s: 90000, read_at: 1795211200, cores: 3}]}
    summaries_until:
      description: The time up to which the server has the summaries in a site's logs, in epoch seconds, by site.
      type: dict
      sample: {lab: 1795210900.5}
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import (
    REQUESTS_ERROR,
    server_argument_spec,
    with_first_token,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError


def single(sites):
    """Return the names that are there once, sorted."""
    return sorted(name for name in set(sites) if sites.count(name) == 1)


def read(client, params):
    """Return (demand, supply). Raises GlideinError."""
    sites = params["sites"]
    asked = {"sites": None if sites is None else single(sites), "attributes": params["attributes"] or None}
    return client.call("get_demand", asked), client.call("get_supply")


def main():
    spec = server_argument_spec()
    spec["sites"] = {"type": "list", "elements": "str"}
    spec["attributes"] = {"type": "list", "elements": "str", "default": []}
    spec["tokens"] = {"type": "list", "elements": "str", "default": [], "no_log": True}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if REQUESTS_ERROR:
        module.fail_json(msg=missing_required_lib("requests"), exception=REQUESTS_ERROR)
    try:
        demand, supply = with_first_token(module.params, read)
    except GlideinError as error:
        module.fail_json(msg=str(error), **error.details())
    module.exit_json(changed=False, demand=demand, supply=supply)


if __name__ == "__main__":
    main()
