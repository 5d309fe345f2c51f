#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: job_analysis
short_description: Read with condor_q -better-analyze why a job does not match the machines of the pool
version_added: 0.1.0
description: This is internal and may change in any version.
extends_documentation_fragment: glidein.ops.attributes.info
options:
  job:
    description: Id of the job, such as V(123.0).
    type: str
    required: true
  schedd:
    description: Name of its schedd, as C(condor_status -schedd) shows it. The default is this host's schedd.
    type: str
"""

EXAMPLES = "\n# See playbooks/explain.yml\n"

RETURN = r""" # See parse_analysis in plugins/module_utils/central_manager/job_analysis.py """

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.job_analysis import (
    address_command,
    analysis_command,
    parse_analysis,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError, OutputError

# Of a command.
TIMEOUT_S = 30
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
        },
        supports_check_mode=True,
    )
    runner = Runner(clean_environment(os.environ), TIMEOUT_S, MAX_OUTPUT_BYTES)
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
