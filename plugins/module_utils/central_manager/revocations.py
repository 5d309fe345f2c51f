# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state file of revoked sites: which tokens the pool refuses, and HTCondor's settings that follow from it."""

import hashlib
import json
import os

from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc

# In the directory of the state, with which functions are called.
STATE_FILE = "revoked.json"


def revised(sites, revoked, known, now, issued=None, gateways_issued=None):
    """Return the state {site: {"before", "denied", "machines"}} that follows from `sites`.

    revoked: sites that are to be revoked; known: all sites of the inventory, because one that has left it stays as it
    is; now: epoch seconds; issued, gateways_issued: {site: epoch seconds} of the current tokens of glideins and of
    gateways; older tokens of a trusted site in `issued` are refused. In the state, before: epoch seconds; tokens of
    glideins and of the gateway that were issued until then are refused for good, also after the site is trusted again.
    denied: whether the site is refused altogether. machines: names of startds that used its token, on which
    jobs may still be running.
    """
    following = {}
    for site in sorted(set(sites).union(revoked)):
        state = sites.get(site, {"before": 0, "denied": False, "machines": []})
        if site in revoked:
            following[site] = state if state["denied"] else {"before": now, "denied": True, "machines": []}
        elif state["denied"] and site in known:
            # A stolen token may have been used to get another one, until just now.
            following[site] = {"before": now, "denied": False, "machines": []}
        else:
            following[site] = state
    for site, time_s in (issued or {}).items():
        state = following.get(site, {"before": 0, "denied": False, "machines": []})
        if not state["denied"]:
            oldest_s = min(time_s, (gateways_issued or {}).get(site, time_s))
            following[site] = dict(state, before=max(state["before"], oldest_s - 1))
    return following


def read_state(directory):
    """Return the sites in the state file; {} before there is one. Raises GlideinError if it is damaged."""
    path = os.path.join(directory, STATE_FILE)
    try:
        with open(path, encoding="utf-8") as handle:
            sites = json.load(handle)["sites"]
        return {
            str(site): {
                "before": int(state["before"]),
                "denied": bool(state["denied"]),
                "machines": [str(name) for name in state["machines"]],
            }
            for site, state in sites.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GlideinError(
            f"{path} cannot be read ({error}). It has the tokens that the pool refuses: restore it from a backup."
        ) from error


def write_state(directory, sites):
    """Replace the state file (0600) in one step."""
    write_atomically(os.path.join(directory, STATE_FILE), json.dumps({"sites": sites}, indent=1, sort_keys=True))


def denied_sites(sites):
    """Return the names of the sites that are refused altogether, sorted."""
    return sorted(site for site, state in sites.items() if state["denied"])


def identity(site, domain):
    """Return the identity of a site's token in the pool of a UID_DOMAIN."""
    return f"glidein-{site}@{domain}"


def configuration_digest(sites):
    """Return 12 hexadecimal digits over what the configuration has of the state.

    The running collector reports them when it has read that configuration.
    """
    shown = {site: [state["before"], state["denied"]] for site, state in sites.items()}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode("utf-8")).hexdigest()[:12]


def diff(before, after):
    """Return {"before", "after"} of two states: a line for each site that differs."""
    names = [site for site in sorted(set(before) | set(after)) if before.get(site) != after.get(site)]
    return {
        key: "".join(_line(site, sites[site]) for site in names if site in sites)
        for key, sites in (("before", before), ("after", after))
    }


def _line(site, state):
    what = "revoked" if state["denied"] else "trusted"
    return f"{site}: {what}, tokens issued until {utc(state['before'])} are refused\n"
