#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_facts
short_description: Read what a site's batch system and login node report about themselves
version_added: 0.1.0
description:
  - Reads queues, node sizes, limits and accounts of the batch system, and the environment of the login node.
    C(docs/batch-systems) lists the commands and files; the module only reads.
  - Runs on the site's login node, as the user who is to submit the glideins.
  - A command that is refused, that hangs or whose output is invalid leaves a gap in the facts. It is not an error.
extends_documentation_fragment: glidein.ops.attributes.info
options:
  scheduler:
    description:
      - The batch system, one of V(slurm), V(pbspro), V(torque), V(sge), V(uge), V(lsf), V(htcondor).
      - By default the first one that is found, in this order. V(htcondor) is last, because its commands may be
        there only to submit to another pool.
    type: str
  commands:
    description:
      - "Maps the name of a command to the argument list to run instead, for example
        C({scontrol: [/opt/slurm/bin/scontrol]})."
      - Without it, commands are found by the C(PATH) of the module and that of a login shell.
    type: dict
    default: {}
  controller_time:
    description: "The time on the controller in epoch seconds, for example C({{ now().timestamp() }})."
    type: float
  connect:
    description: Addresses to which TCP connections are tried, each a C(host:port) or an http or https URL.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit in seconds for all commands together. A single command may take at most 30 seconds, and at
      most a third of the time that is left.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Read the facts of the site
  glidein.ops.site_facts:
    controller_time: "{{ now().timestamp() }}"
    connect:
      - cm.example.org:9618
      - https://demand.example.org
  register: site
"""

RETURN = r"""
facts:
  description: The facts. A value that is null is not known, or there is no such limit; C(sources) of a queue and
    C(gaps) contain the reason.
  returned: success
  type: dict
  contains:
    read_at:
      description: Time on the login node at which the facts were read, in epoch seconds.
      type: int
    scheduler:
      description: The batch system, a value of C(glidein_scheduler); null if none was found.
      type: str
    version:
      description: Version of the batch system.
      type: str
    others:
      description: Further batch systems whose commands exist.
      type: list
      elements: str
    commands:
      description: Commands that only a login shell finds, that need variables of a login shell, or that O(commands)
        contains, as values for C(commands) of C(glidein_scheduler_options).
      type: dict
      sample: {sbatch: [/opt/slurm/bin/sbatch]}
    cluster:
      description: The batch system's own name.
      type: str
    user:
      description: The user whose accounts and limits these are.
      type: str
    queues:
      description:
        - The queues or partitions, sorted by name. C(problems) are the reasons why the user's glideins cannot run in
          the queue. C(default) is whether jobs that name no queue run in it, C(whole_nodes) whether jobs get only
          whole nodes.
        - C(node_groups) are the nodes, equal ones together, the largest group first. The sizes, in MiB, are what one
          node has for jobs; C(usable_nodes) of C(nodes) accept jobs at present.
        - C(max_queued) (queued and running), C(max_running), C(max_cpus) and C(max_gpus) (of running jobs) limit the
          jobs of one user in the queue. C(max_cpus_per_job) is the limit on the cores of a job, or of a job on one
          node. C(max_memory_per_job_mb) is known for PBS, Torque and LSF.
        - C(accounts) are the user's accounts that the queue accepts; null if a job may name any account, or no account.
          C(qos) is the QOS that jobs must ask for, because the queue does not accept the user's default (Slurm).
          C(parallel_environments) are those of Grid Engine. C(sources) says where values come from, by their key.
      type: list
      elements: dict
      sample:
        - {name: RM, problems: ["State=DOWN: it starts no new jobs"], default: true, walltime_s: 172800,
           whole_nodes: false, max_queued: 50, max_running: 10, max_cpus: null, max_gpus: 4, max_cpus_per_job: 64,
           max_nodes_per_job: 64, max_memory_per_cpu_mb: 2000, max_memory_per_job_mb: null, accounts: [abc123],
           parallel_environments: [], qos: null, node_groups: [
             {nodes: 488, usable_nodes: 470, cpus: 128, memory_mb: 253000, disk_mb: null, gpus: 0, gpu_type: null,
              features: [EGRESS]}],
           sources: {walltime_s: "scontrol show partition: MaxTime=2-00:00:00"}}
    accounts:
      description: The user's accounts. C(problem) is null, or the reason why the account cannot be charged.
        C(max_queued) and C(max_running) limit the jobs of the account.
      type: list
      elements: dict
      sample:
        - {name: abc123, default: true, problem: null, max_queued: 10, max_running: null, qos: [normal]}
    limits:
      description: Limits of the whole batch system. C(max_array) is the largest number of tasks of an array job,
        C(max_queued) and C(max_running) are limits on the user's jobs. C(grace_s) is the time in seconds from the
        notice to a job until its kill, C(memory_enforced) whether jobs that use too much memory are killed,
        C(memory_unit) the unit of memory (LSF).
      type: dict
      sample: {max_array: 1000, max_queued: 500, max_running: null, grace_s: 30, memory_enforced: true,
               memory_unit: null}
    gpu_request:
      description: How GPUs are asked for, a value of C(resources.gpus) of an entry; null without GPUs.
      type: str
    environment:
      description: The login node. C(network) is whether several hosts mount the file system, judged by its type.
        Proxies are without user names and passwords. C(error) of a connection is empty if it was made.
        C(clock_offset_s) includes the time that it takes to start the module, one to five seconds.
      type: dict
      sample:
        {home: /home/pilot, home_free_mb: 10000, home_network: true,
         scratch: [{path: /scratch/pilot, variable: SCRATCH, free_mb: 900000, network: true}], modules: true,
         containers: {apptainer: 1.3.4}, cvmfs: [icecube.opensciencegrid.org],
         proxies: {https_proxy: "http://proxy:3128"}, clock_offset_s: 0.4,
         connections: [{address: "cm.example.org:9618", error: ""}]}
    gaps:
      description: The values that could not be read, each with C(what), C(command) and C(error).
      type: list
      elements: dict
"""

import os
import pwd

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_facts import read_site


def main():
    module = AnsibleModule(
        argument_spec={
            "scheduler": {"type": "str"},
            "commands": {"type": "dict", "default": {}},
            "controller_time": {"type": "float"},
            "connect": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    user = pwd.getpwuid(os.geteuid())
    with failing(module):
        facts = read_site(module.params, user.pw_name, user.pw_dir, user.pw_shell, os.environ)
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
