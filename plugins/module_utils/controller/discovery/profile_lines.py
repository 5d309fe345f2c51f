# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of the playbook status about the profiles of sites."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.drift import profile_drift
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.summary import wrapped
from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import load_profile


def profile_lines(hostvars, hosts, facts):
    """Return the lines that name the profiles of these hosts, and what differs on the login nodes.

    hostvars: Ansible's; facts: {host: result of the module site_facts, also of a skipped or failed task}.
    """
    lines = []
    for host in hosts:
        try:
            name = hostvars[host].get("glidein_profile")
            site = hostvars[host].get("glidein_site") or host
            read = load_profile(name)["read"] if name else None
        # Of any type: a variable may refer to an undefined one. The table of sites reports the error.
        except Exception:  # pylint: disable=broad-exception-caught
            name = None
        if name:
            lines += wrapped(f"{site}: profile {name}, of documentation read on {read}", "")
            lines += _difference(name, (facts.get(host) or {}).get("facts"))
    return lines


def _difference(profile, facts):
    """Return the lines on what differs between a profile and a login node. facts: None if they were not read."""
    if not facts or not facts["scheduler"]:
        return ["  Not compared with the login node."]
    lines = [line for sentence in profile_drift(facts, profile) for line in wrapped(sentence, "    ")]
    return ["  Differs from the login node:", *lines] if lines else []
