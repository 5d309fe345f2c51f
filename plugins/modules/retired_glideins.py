#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: retired_glideins
short_description: Let the running glideins of a site retire
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Repeats C(condor_off -peaceful), on the central manager as root, until all registered glideins of the site or entry
    have retired; C(docs/operations.md) describes retirement. Drain the site first, so that no further glidein starts.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  site:
    description: Name of the site.
    type: str
    required: true
  entry:
    description: Name of the entry. The default is the whole site.
    type: str
  batch_ids:
    description: RV(glidein.ops.site_drain#module:running_ids), glideins whose registration is waited for.
    type: list
    elements: str
    default: []
  patience:
    description: Seconds to wait until all glideins have registered and retired.
    type: int
    default: 60
"""

EXAMPLES = "\n# See playbooks/drain.yml\n"

RETURN = r"""
summary:
  description: The result in sentences.
  returned: success
  type: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError, failing
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

INTERVAL_S = 2


def constraint(site, entry):
    """Return a ClassAd expression for the ads of the glideins of a site, or of one of its entries."""
    text = f'is_glidein && GLIDEIN_Site == "{site}"'
    return text if entry is None else f'{text} && GLIDEIN_Entry == "{entry}"'


def status_command(expression):
    """Return the argument list that prints "BATCH-ID NAME START" of glideins. START: the expression, not its value."""
    attributes = ["GLIDEIN_BatchId", "Name", "Start"]
    return ["condor_status", "-constraint", f"PartitionableSlot && {expression}", "-af:r", *attributes]


def off_command(expression):
    """Return the argument list that retires glideins."""
    return ["condor_off", "-peaceful", "-daemon", "startd", "-constraint", expression]


def read_glideins(text):
    """Return ({batch ids of registered glideins}, {names of those that accept jobs}).

    text: as status_command prints it. A startd that shuts down peacefully has no START in its ads.
    """
    rows = [line.split(None, 2) for line in text.splitlines()]
    rows = [row for row in rows if len(row) == 3]
    return {row[0].strip('"') for row in rows}, {row[1].strip('"') for row in rows if row[2].strip() != "undefined"}


def retire(params, check_mode, condor, clock=time.monotonic, pause=time.sleep):
    """Retire the glideins; return (names of glideins that accepted jobs, names of those that still do, missing ids).

    Raises CommandError if glideins can be neither read nor retired.
    """
    expression = constraint(params["site"], params["entry"])
    deadline = clock() + params["patience"]
    found, seen, failures = set(), set(), []
    while True:
        registered, accepting = read_glideins(condor.run(status_command(expression)))
        found |= accepting
        seen |= registered
        missing = sorted(set(params["batch_ids"]) - seen)
        if check_mode or not (accepting or missing):
            return found, accepting, missing
        if clock() >= deadline:
            if accepting and failures:
                raise failures[0]
            return found, accepting, missing
        if accepting:
            failures = []
            try:
                condor.run(off_command(expression))
            except CommandError as error:  # such as: the ad of a master is not in the collector yet
                failures = [error]
        pause(INTERVAL_S)


def summary(params, check_mode, retired, missing):
    """Return the result in sentences."""
    label = params["site"] if params["entry"] is None else f"{params['site']}/{params['entry']}"
    verb = "would be" if check_mode else "was" if retired == 1 else "were"
    noun = "glidein" if retired == 1 else "glideins"
    text = f"{label}: {retired} {noun} {verb} retired. Retired glideins end after their last job."
    if missing:
        text += (
            f" Not registered, so they were not retired: {len(missing)} (batch jobs {', '.join(missing[:10])}). If "
            "they register later, they accept jobs: repeat this."
        )
    return text


def main():
    module = AnsibleModule(
        argument_spec={
            "site": {"type": "str", "required": True},
            "entry": {"type": "str"},
            "batch_ids": {"type": "list", "elements": "str", "default": []},
            "patience": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    with failing(module, "The glideins cannot be retired: "):
        for option in ("site", "entry"):
            if params[option] is not None and not is_name(params[option]):
                raise InputError(invalid(option, params[option], NAME_RULE))
        found, accepting, missing = retire(params, module.check_mode, Condor())
    if accepting and not module.check_mode:
        module.fail_json(
            msg=f"{len(accepting)} glideins of {params['site']} still accept jobs after {params['patience']} s: "
            f"{', '.join(sorted(accepting)[:10])}. Repeat this; HTCondor's MasterLog of the glideins has the reason."
        )
    text = summary(params, module.check_mode, len(found), missing)
    if missing and not module.check_mode:
        module.warn(text)
    header = f"glideins of {params['site']} that accept jobs"
    before = "".join(f"{name}\n" for name in sorted(found))
    diff = {"before_header": header, "after_header": header, "before": before, "after": ""}
    module.exit_json(changed=bool(found), retired=len(found), missing=missing, summary=text, diff=diff)


if __name__ == "__main__":
    main()
