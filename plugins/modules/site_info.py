#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_info
short_description: Collect the definitions of sites from the variables of their hosts
version_added: 0.1.0
description:
  - Returns for each host what M(glidein.ops.plan) needs to plan for its site, read from C(glidein_site),
    C(glidein_scheduler), C(glidein_scheduler_options), C(glidein_entries), C(glidein_limits), C(glidein_budget),
    C(glidein_eagerness) and C(glidein_profile), and from the result of M(glidein.ops.queue_info).
  - A host whose variables cannot be read does not fail the task. Its definition has an C(error), so that the plan
    changes nothing at its site. The same holds for an unknown C(glidein_) variable, an invalid
    C(glidein_demand_token), and a queue that could not be read.
  - Runs on the controller. Use it with C(run_once), because it reads the variables of all hosts in one process.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.info
  - glidein.ops.attributes.actiongroup_glidein
options:
  hosts:
    description:
      - Names of the inventory hosts, such as C(ansible_play_hosts).
    type: list
    elements: str
    required: true
  queues:
    description:
      - The result of M(glidein.ops.queue_info) for each host, by the host's name. A host without one gets an C(error).
    type: dict
    default: {}
  sessions:
    description:
      - The result of M(glidein.ops.ssh_session) for each host, by the host's name. It explains why the queue was not
        read, if that task was skipped.
    type: dict
    default: {}
seealso:
  - module: glidein.ops.queue_info
  - module: glidein.ops.plan
"""

EXAMPLES = r"""
- name: Read the batch queue
  glidein.ops.queue_info:
  register: queue
  ignore_errors: true

- name: Collect the site definitions
  glidein.ops.site_info:
    hosts: "{{ ansible_play_hosts }}"
    queues: "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'queue'))) }}"
  delegate_to: localhost
  run_once: true
  register: collected

- name: Plan the glideins of all sites
  glidein.ops.plan:
    deployment: "{{ glidein_deployment }}"
    demand: "{{ demand_result.demand }}"
    supply: "{{ demand_result.supply }}"
    sites: "{{ collected.sites.values() | list }}"
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
sites:
  description:
    - One definition for each host, by the host's name, with the keys of O(glidein.ops.plan#module:sites).
    - C(queue) is null if C(error) is not.
  returned: success
  type: dict
  sample:
    login1:
      site: lab
      scheduler: slurm
      scheduler_options: {}
      entries: {}
      limits: {}
      budget: {}
      eagerness: null
      queue: null
      error: "Connection timed out"
attributes:
  description: The job attributes that C(accept_requirements) of the sites' entries refer to, at most 20, for
    O(glidein.ops.demand_info#module:attributes).
  returned: success
  type: list
  elements: str
  sample: [ProjectName]
"""
