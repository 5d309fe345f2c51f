#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: job_analysis
short_description: Read HTCondor's own analysis of a job
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Runs C(condor_q -better-analyze) for one job on a host that may read its schedd, and returns why the job does not
    match the machines that are in the pool now. A failure of the command is the result RV(error).
author:
  - the glidein.ops authors (@glidein-ops)
extends_documentation_fragment:
  - glidein.ops.attributes
  - glidein.ops.attributes.info
options:
  job:
    description: Id of the job, such as V(123.0).
    type: str
    required: true
  schedd:
    description: Name of its schedd, as C(condor_status -schedd) shows it. The default is this host's schedd.
    type: str
  timeout:
    description: Seconds after which a command is stopped.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: Read HTCondor's analysis of a job
  glidein.ops.job_analysis:
    job: "123.0"
  delegate_to: ap.example.org
  register: job_analysis
"""

RETURN = r"""
conditions:
  description: The conditions of the job's Requirements, each with C(condition) and C(slots), how many slots satisfy it.
  returned: success
  type: list
  elements: dict
machines:
  description: Number of machines that were considered; null if HTCondor compared none.
  returned: success
  type: int
counts:
  description: The numbers of C(machines) with each C(verdict), in HTCondor's words, without zeros.
  returned: success
  type: list
  elements: dict
last_failure:
  description: The negotiator's last reason not to match the job, or null.
  returned: success
  type: str
error:
  description: Why the analysis could not be read; otherwise empty.
  returned: success
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, InputError, OutputError
from ansible_collections.glidein.ops.plugins.module_utils.pool.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.pool.job_analysis import (
    address_command,
    analysis_command,
    parse_analysis,
)

# The analysis of one job has a line for each condition of its Requirements.
MAX_OUTPUT_BYTES = 2**20


def analyse(condor, job, schedd):
    """Return the output of the analysis. Raises InputError, CommandError, or OutputError for an unknown schedd."""
    command = analysis_command(job)
    if schedd:
        address = condor.run(address_command(schedd)).strip()
        if not address:
            raise OutputError(f"The collector has no schedd {schedd}: see `condor_status -schedd`.")
        command = analysis_command(job, address.splitlines()[0])
    return condor.run(command)


def main():
    module = AnsibleModule(
        argument_spec={
            "job": {"type": "str", "required": True},
            "schedd": {"type": "str"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    runner = Runner(clean_environment(os.environ), module.params["timeout"], MAX_OUTPUT_BYTES)
    text, error = "", ""
    try:
        text = analyse(Condor(runner), module.params["job"], module.params["schedd"])
    except InputError as invalid_option:
        module.fail_json(msg=str(invalid_option))
    except (CommandError, OutputError) as failure:
        error = str(failure)
    module.exit_json(changed=False, error=error, **parse_analysis(text))


if __name__ == "__main__":
    main()
