#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: node_probe
short_description: Read what a site's compute nodes offer, with one small batch job for each entry
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - With O(wait), the action plugin runs a whole probe. Only one probe of a site can run at a time. An entry that fails
    does not affect the others. C(docs/discovery.md) describes the jobs and their reports.
extends_documentation_fragment:
  - glidein.ops.attributes.diff
  - glidein.ops.site
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
    description: Servers that each job tries to connect to, C(HOST), C(HOST:PORT) (default 9618) or a URL.
    type: list
    elements: str
    default: []
  cvmfs:
    description: CVMFS repositories that each job tries to list, besides those of the entry and of the node.
    type: list
    elements: str
    default: []
  scratch:
    description: Directory of the compute node to report, besides the usual scratch directories.
    type: str
  environment:
    description: Environment variables of the jobs.
    type: dict
    default: {}
  modules:
    description: Environment modules that the jobs load.
    type: list
    elements: str
    default: []
  wait:
    description: Seconds that the jobs may wait in the batch queue; the reports of jobs that have started by then get 11
      minutes more. The action plugin runs the module with O(state=submitted), then every 10 seconds with O(state=read),
      and at the end with O(state=absent). A failure does not fail the task; RV(msg) has it.
    type: int
  script:
    description: Text of the report's script. The action plugin sets it.
    type: str
    required: true
"""

EXAMPLES = "\n# See playbooks/discover.yml\n"

RETURN = r"""
nodes:
  description:
    - "For each entry, the job: C(state), C(error), C(reason), C(job_id) and C(waited_s); and the report of its node. A
      value is null if it is unknown."
    - The states V(reported) and V(failed) are final; the others are V(queued), V(running), V(completing), and V(gone)
      from the queue without a report.
  returned: success
  type: dict
  sample:
    RM:
      {state: reported, error: null, reason: "", job_id: "123", waited_s: 12, host: r001, outbound: true,
       connections: [{address: "cm.example.org:9618", error: ""}],
       scratch: [{path: /tmp, variable: TMPDIR, free_mb: 71298, type: ext4, network: false, executable: true}],
       memory_mb: 2068, cpus: 1, limits_enforced: {memory: true, cpus: true}, os: Rocky Linux 9.4,
       gpus: [{name: NVIDIA A100-SXM4-40GB, memory_mb: 40960}], gaps: [],
       cvmfs: [icecube.opensciencegrid.org], attributes: {OpSysAndVer: Rocky9, Arch: X86_64}}
left:
  description: Jobs and the directory that were there before the module ran. In check mode, they still are.
  returned: O(state=absent)
  type: list
  elements: str
unfinished:
  description: Number of nodes whose report may still come.
  returned: success
  type: int
msg:
  description: The states of all nodes as one sentence.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.node_probe import (
    NodeProbe,
    summary,
    unfinished,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import site_argument_spec


def run(module):
    """Return the module's result. Raises GlideinError."""
    probe = NodeProbe(module.params)
    state, check = module.params["state"], module.check_mode
    result, problem = {"changed": False}, ""
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
        nodes, problem = (probe.read(), "") if check else probe.finish()
    else:
        nodes = probe.read()
    waiting = unfinished(nodes)
    # The time since the first submission of a node whose report may still come.
    waited_s = max((node["waited_s"] for node in waiting), default=0)
    return dict(
        result,
        nodes=nodes,
        unfinished=len(waiting),
        waited_s=waited_s,
        msg="; ".join(filter(None, [summary(nodes), problem])),
    )


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
        wait={"type": "int"},
        script={"type": "str", "required": True},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failing(module, f"Site {module.params['site']}: ", "a file of the probe cannot be written or removed: "):
        result = run(module)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
