#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: node_probe
short_description: Read what a site's compute nodes offer, with one small batch job for each entry
version_added: 0.1.0
description:
  - Submits a batch job for each entry. It has the queue, account, constraint and directives of the entry, the smallest
    of its shapes, and a walltime of at most 10 minutes. If the batch system refuses the job, it is submitted again with
    the walltime of the entry, because a queue may have a minimum.
  - The job runs a shell script that reports the network, scratch directories, limits, operating system, GPUs, CVMFS
    repositories and container programs of its node. It needs no HTCondor, no token and no central manager.
  - An entry that fails does not affect the others.
  - Run it with O(state=submitted) once, then with O(state=read) until RV(unfinished) is 0, and at the end with
    O(state=absent). A run that is interrupted leaves jobs and files, which the next run with O(state=submitted) or
    O(state=absent) removes. Only one probe of a site can run at a time.
  - Runs on the site's login node, as the user who submits the glideins.
  - Options of the site that are not given are taken from the host's variables C(glidein_...) of the same name.
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.actiongroup_site
  - glidein.ops.site
attributes:
  check_mode:
    support: full
    details: No job is submitted or cancelled, and no file is written or removed.
  diff_mode:
    support: full
    details: Shows the batch scripts of O(state=submitted), without the report's script.
options:
  state:
    description:
      - V(submitted) cancels the jobs of an earlier run and submits one job for each entry.
      - V(read) returns the reports that have arrived, and the states of the other jobs.
      - V(absent) does the same, cancels the jobs that have not ended, and removes all files.
    type: str
    choices: [submitted, read, absent]
    default: read
  addresses:
    description:
      - Servers that each job tries to connect to, such as the pool's collector and the demand server. Each is a host,
        C(HOST:PORT) or a URL. The default port is 9618.
      - Without addresses, RV(nodes.outbound) is null.
    type: list
    elements: str
    default: []
  cvmfs:
    description:
      - CVMFS repositories that each job tries to list, besides C(cvmfs) of the entry and those that are mounted or
        configured on the node.
    type: list
    elements: str
    default: []
  scratch:
    description:
      - Directory of the compute node to report, as in M(glidein.ops.glideins), besides the usual scratch directories.
    type: str
  environment:
    description:
      - Environment variables of the jobs, as in M(glidein.ops.glideins).
    type: dict
    default: {}
  modules:
    description:
      - Environment modules that the jobs load, as in M(glidein.ops.glideins).
    type: list
    elements: str
    default: []
  wait:
    description:
      - Seconds to wait for the reports after the submission. The action plugin runs the module again every 10 seconds,
        also after a failure, until RV(unfinished) is 0.
    type: int
    default: 0
  script:
    description:
      - Text of the report's script. The action plugin sets it to C(files/discovery/node_report.sh) of the collection.
    type: str
    required: true
seealso:
  - module: glidein.ops.submission_info
"""

EXAMPLES = r"""
- name: Submit one job for each entry
  glidein.ops.node_probe:
    state: submitted
    scheduler: slurm
    entries: "{{ glidein_entries }}"
    addresses: [cm.example.org]

- name: Wait for the reports
  glidein.ops.node_probe:
    scheduler: slurm
    entries: "{{ glidein_entries }}"
    wait: 900
  register: probe
  failed_when: false

- name: Cancel the jobs that have not started, and return all reports
  glidein.ops.node_probe:
    state: absent
    scheduler: slurm
    entries: "{{ glidein_entries }}"
  register: probe
"""

RETURN = r"""
nodes:
  description: The node of each entry. A value is null if it is unknown.
  returned: success
  type: dict
  contains:
    state:
      description: State of the job. C(reported) and C(failed) are final; the others are C(queued), C(running),
        C(completing) while the job ends, and C(gone) after it has left the queue without a report.
      type: str
      sample: reported
    error:
      description: Why there is no complete report, otherwise null.
      type: str
      sample: "the job was still queued after 900 s (Priority) and was cancelled."
    reason:
      description: Why the job does not run, as the batch system reports.
      type: str
      sample: Priority
    job_id:
      description: The batch system's id of the job.
      type: str
      sample: "123"
    waited_s:
      description: Seconds from the submission to the start of the report. Without a report, until now. Null
        if no job was submitted.
      type: int
      sample: 12
    outbound:
      description: Whether the node could connect to at least one of O(addresses). Null if it tried no connection.
      type: bool
      sample: true
    connections:
      description: The connections, each with C(address) and C(error), which is empty after a success.
      type: list
      elements: dict
      sample: [{address: "cm.example.org:9618", error: ""}]
    scratch:
      description: Directories that the job can write to, each with C(path), C(variable) that names it, C(free_mb),
        C(type) of the file system, C(network) if other machines serve it, and C(executable) if programs can run there.
      type: list
      elements: dict
      sample: [{path: /tmp, variable: TMPDIR, free_mb: 71298, type: ext4, network: false, executable: true}]
    memory_mb:
      description: MiB of memory that the job is limited to, or without a limit that the node offers.
      type: int
      sample: 2068
    cpus:
      description: Cores that the job can use.
      type: int
      sample: 1
    limits_enforced:
      description: Whether a control group limits the job's C(memory), and a control group or the affinity its C(cpus).
      type: dict
      sample: {memory: true, cpus: true}
    address_space_mb:
      description: MiB of virtual memory that each process is limited to.
      type: int
      sample: null
    os:
      description: Operating system.
      type: str
      sample: Rocky Linux 9.4 (Blue Onyx)
    libc:
      description: The C library.
      type: str
      sample: glibc 2.34
    kernel:
      description: Release of the kernel.
      type: str
      sample: 5.14.0-427.el9.x86_64
    machine:
      description: Architecture of the processor.
      type: str
      sample: x86_64
    gpus:
      description: GPUs that the job can see, each with C(name) and C(memory_mb).
      type: list
      elements: dict
      sample: [{name: NVIDIA A100-SXM4-40GB, memory_mb: 40960}]
    gpus_assigned:
      description: The list of GPUs in the variable that the batch system sets, or V(none) for an empty list.
      type: str
      sample: "0"
    cvmfs:
      description: CVMFS repositories that can be read.
      type: list
      elements: str
      sample: [icecube.opensciencegrid.org]
    container:
      description: C(path) and C(version) of apptainer or singularity.
      type: dict
      sample: {path: /usr/bin/apptainer, version: 1.3.4}
    user_namespaces:
      description: Whether a user can create user namespaces, which apptainer without setuid needs.
      type: bool
      sample: true
    attributes:
      description: Attributes that the machine ad of a glidein on this node has.
      type: dict
      sample: {OpSysAndVer: Rocky9, Arch: X86_64, Microarch: x86_64-v4}
    clock_offset_s:
      description: Seconds by which the clock of the log directory's server is ahead of the node's clock.
      type: int
      sample: 0
    host:
      description: Name of the node.
      type: str
      sample: r001
    gaps:
      description: Parts of the report that are missing, with the reason.
      type: list
      elements: str
      sample: ["GPUs: no answer within 60 s"]
left:
  description: Jobs and the directory that were there before the module ran. In check mode, they still are.
  returned: O(state=absent)
  type: list
  elements: str
  sample: ["job 6 (p7720c-61d0b2f0)", /home/pilot/.glidein/node_probe.lab]
unfinished:
  description: Number of nodes whose report may still come.
  returned: success
  type: int
  sample: 1
waited_s:
  description: Seconds that the unfinished nodes have waited; 0 without one.
  returned: success
  type: int
  sample: 95
msg:
  description: The states of all nodes as one sentence.
  returned: success
  type: str
  sample: "RM: queued (Priority); gpu: reported"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.site.node_probe import (
    NodeProbe,
    longest_wait_s,
    summary,
    unfinished,
)
from ansible_collections.glidein.ops.plugins.module_utils.site.site_queue import site_argument_spec


def run(module):
    """Return the module's result. Raises GlideinError."""
    probe = NodeProbe(module.params)
    state, check = module.params["state"], module.check_mode
    result = {"changed": False}
    if state == "submitted":
        result["changed"] = bool(probe.entries)
        if module._diff:
            headers = {"before": "", "before_header": ""}
            result["diff"] = [dict(headers, after=text, after_header=path) for path, text in probe.headers()]
        if not check:
            probe.submit()
        nodes = {} if check else probe.read()
    elif state == "absent":
        result["left"] = probe.left()
        result["changed"] = bool(result["left"])
        nodes = probe.read() if check else probe.finish()
    else:
        nodes = probe.read()
    return dict(result, nodes=nodes, unfinished=unfinished(nodes), waited_s=longest_wait_s(nodes), msg=summary(nodes))


def main():
    spec = site_argument_spec()
    spec.update(
        state={"type": "str", "choices": ["submitted", "read", "absent"], "default": "read"},
        addresses={"type": "list", "elements": "str", "default": []},
        cvmfs={"type": "list", "elements": "str", "default": []},
        scratch={"type": "str"},
        environment={"type": "dict", "default": {}},
        modules={"type": "list", "elements": "str", "default": []},
        # For the action plugin only.
        wait={"type": "int", "default": 0},
        script={"type": "str", "required": True},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        result = run(module)
    except GlideinError as error:
        module.fail_json(msg=f"Site {module.params['site']}: {error}", **error.details())
    except OSError as error:
        module.fail_json(msg=f"Site {module.params['site']}: a file of the probe cannot be written or removed: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
