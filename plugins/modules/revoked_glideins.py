#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: revoked_glideins
short_description: Remove what the glideins of revoked sites have in the pool
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Does steps 3 to 5 of the role P(glidein.ops.revocation#role) for each of O(sites), until nothing is left. Jobs have
    60 seconds to save their work. If something is left after 90 seconds, or a schedd does not show its jobs, the module
    fails.
extends_documentation_fragment: glidein.ops.attributes
options:
  directory:
    description: Directory of the state of M(glidein.ops.revoked_sites). The machines are recorded there, too.
    type: path
    required: true
  sites:
    description: Names of the revoked sites. In check mode, M(glidein.ops.revoked_sites) has not recorded them yet.
    type: list
    elements: str
    required: true
"""

EXAMPLES = "\n# See roles/revocation/tasks/glideins.yml\n"

RETURN = r"""
summary:
  description: A sentence for each revoked site.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.revocations import (
    identity,
    read_state,
    write_state,
)
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.revoked_glideins import RevokedGlideins
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing


def remove_glideins(params, check_mode, condor):
    """Remove what revoked sites have in the pool; return {site: report}. Raises GlideinError or OSError."""
    sites = read_state(params["directory"])
    domain = condor.required_setting("UID_DOMAIN") if params["sites"] else ""
    reports = {}
    for site in params["sites"]:
        known = sites[site]["machines"] if site in sites else []
        glideins = RevokedGlideins(condor.run, identity(site, domain), known)
        glideins.look()
        if not check_mode:
            # Before the ads are removed: no other source names the machines on which its jobs run.
            sites[site]["machines"] = sorted(glideins.machines)
            if sites[site]["machines"] != known:
                write_state(params["directory"], sites)
            glideins.act()
        reports[site] = glideins.report()
    return reports


def sentence(site, report, check_mode):
    """Return the sentence for one site."""
    removed, taken = ("would be removed", "would be taken back") if check_mode else ("were removed", "taken back")
    text = f"{site} is revoked: {report['machines']} machines {removed}, {report['jobs']} jobs {taken}."
    return " ".join([text, "; ".join(report["errors"])]).strip()


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "sites": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    with failing(module, "The glideins of revoked sites cannot be removed: "):
        reports = remove_glideins(module.params, module.check_mode, Condor())
    summary = [sentence(site, report, module.check_mode) for site, report in sorted(reports.items())]
    result = {"changed": any(report["changed"] for report in reports.values()), "sites": reports, "summary": summary}
    if any(report["errors"] for report in reports.values()):
        module.fail_json(msg="\n".join(summary), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
