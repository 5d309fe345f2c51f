# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a proposal that comes from the profile of a known machine.

A profile is as profiles.load_profile returns it.
"""

from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Proposal
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.queues import why_unusable
from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import DISK_MB_PER_CPU


def queues_of_profile(proposal: Proposal, facts: dict, profile: dict, chosen: list) -> dict:
    """Return {entry of the profile: its queue in the facts, None if they do not state it}.

    Entries whose queue the login node does not have, or does not let the user use, are left out, and so are the queues
    without an entry. chosen: the queues that would get an entry without the profile.
    """
    known = {queue["name"]: queue for queue in facts["queues"]}
    default = next((queue for queue in facts["queues"] if queue["default"]), None)
    reasons = dict.fromkeys((queue["name"] for queue in chosen), f"profile {profile['name']} has no entry for it")
    reasons.update((each["name"], each["reason"]) for each in profile["queues_without_entry"] if each["name"] in known)
    reasons.update((each["queue"], each["reason"]) for each in proposal.left_out)
    found = {}
    for name, options in profile["entries"].items():
        queue = known.get(options["queue"]) if options.get("queue") else default
        queue_name = queue["name"] if queue else options.get("queue")
        reasons.pop(queue_name, None)
        if options.get("queue") and known:
            reason = why_unusable(queue, facts) if queue else f"the queue of profile {profile['name']} does not exist"
            if reason:
                reasons[queue_name] = reason
                continue
        found[name] = queue
    proposal.left_out = [{"queue": name, "reason": reason} for name, reason in sorted(reasons.items())]
    return found


def remarks_of_profile(proposal: Proposal, profile: dict) -> None:
    """Add what the documentation of the machine states, and its sources, to the end of the file."""
    login, outbound = profile["login"], profile["outbound"]
    quirks = [(", ".join(each["source"]), each["text"]) for each in profile["quirks"]]
    if outbound and not outbound["value"]:
        proxy = f". The proxy is {outbound['proxy']}" if outbound["proxy"] else ""
        text = f"Compute nodes do not reach the internet: glideins need a route to the pool{proxy}"
        quirks.insert(0, (", ".join(outbound["source"]), text))
    if login and login["two_factor"]:
        prompts = f"; it asks: {', '.join(login['prompts'])}" if login["prompts"] else ""
        text = f"The login needs a second factor (docs/two-factor.md){prompts}"
        quirks.insert(0, (", ".join(login["source"]), text))
    sources = [(key, f"{source['says']} ({source['url']})") for key, source in profile["sources"].items()]
    sources.append(("disk_mb", f"{DISK_MB_PER_CPU} MB for each core where no source states the disk"))
    proposal.remarks = [
        (f"What an operator of {profile['title']} must know:", quirks),
        (f"Sources of profile {profile['name']}, read on {profile['read']}:", sources),
    ]
    proposal.notes.append(f"The end of the file states what the documentation of {profile['title']} says.")


def source_text(profile: dict, keys: list) -> str:
    """Return the comment of a value of a profile. keys: of its sources."""
    return f"profile {profile['name']}: {', '.join(keys)}"
