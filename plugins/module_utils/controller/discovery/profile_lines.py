# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of the playbook status about the profiles of sites."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.drift import profile_drift
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.summary import wrapped
from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import load_profile
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import WIDTH


def profile_lines(hostvars, hosts, facts):
    """Return a section that names the profiles of these hosts, and what differs on the login nodes; [] without one.

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
            found = _differences(name, (facts.get(host) or {}).get("facts"))
            compared = "not compared with the login node" if found is None else "differs from the login node:"
            text = f"{site}: {name}, documentation read on {read}"
            lines += wrapped(text if found == [] else f"{text}; {compared}", "  ", WIDTH)
            lines += [line for sentence in found or () for line in wrapped(sentence, "    ", WIDTH)]
    return ["", "PROFILES", *lines] if lines else []


def _differences(profile, facts):
    """Return the sentences on what differs between a profile and the facts, None if they do not name a batch system."""
    return profile_drift(facts, profile) if facts and facts["scheduler"] else None
