#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_cleanup
short_description: Remove what glideins have left on a login node
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - C(docs/operations.md) lists what is removed, and when. Works under the same lock as M(glidein.ops.glideins).
    O(scratch) and O(log_days) are taken from the host's variables as the options of the site are.
extends_documentation_fragment:
  - glidein.ops.attributes.diff
  - glidein.ops.site
options:
  kinds:
    description: What to remove. V(orphan) is queued glideins of entries or shapes that are not configured. V(remains)
      is directories of interrupted runs.
    type: list
    elements: str
    choices: [orphan, version, remains, log, scratch]
    default: [orphan, version, remains, log, scratch]
  log_days:
    description: Days after which logs that are not written any more are removed. V(0) keeps all.
    type: int
    default: 14
  scratch:
    description: Where glideins make their scratch directories. Paths with other variables than C($USER) and C($HOME)
      are ignored.
    type: str
    default: "${TMPDIR:-/tmp}"
"""

EXAMPLES = "\n# See playbooks/cleanup.yml\n"

RETURN = r"""
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

import os
import pwd
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.login_node.cleanup import (
    find_items,
    remove_items,
    scratch_parents,
)
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import PATIENCE_S
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import SiteQueue, site_argument_spec

# kind: (one, several)
WORDS = {
    "orphan": ("queued orphan", "queued orphans"),
    "version": ("version of the payload", "versions of the payload"),
    "remains": ("directory of an interrupted run", "directories of interrupted runs"),
    "log": ("log", "logs"),
    "scratch": ("scratch directory", "scratch directories"),
}


def clean_up(params, check_mode, clock=time.time):
    """Find the items, and remove them unless in check mode; return (items, [(item, error)]). Raises GlideinError."""
    queue = SiteQueue(params)
    if not os.path.isdir(queue.directory.path):
        return [], []
    account = pwd.getpwuid(os.geteuid())
    texts = [params["scratch"]] + [entry["scratch"] for entry in queue.site["entries"].values()]
    parents = scratch_parents(texts, account.pw_name, account.pw_dir)
    with queue.directory.lock(PATIENCE_S, check_mode):
        items = find_items(queue, params["kinds"], params["log_days"], parents, clock())
        return items, [] if check_mode else remove_items(queue, items)


def summary(site, items, check_mode):
    """Return the result in one sentence."""
    if not items:
        return f"{site}: there is nothing to remove."
    counts = {kind: len([item for item in items if item.kind == kind]) for kind in WORDS}
    parts = [f"{count} {WORDS[kind][count > 1]}" for kind, count in counts.items() if count]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    verb = "would be" if check_mode else "was" if len(items) == 1 else "were"
    return f"{site}: {text} {verb} removed."


def main():
    spec = site_argument_spec()
    spec.update(
        kinds={"type": "list", "elements": "str", "choices": list(WORDS), "default": list(WORDS)},
        log_days={"type": "int", "default": 14},
        scratch={"type": "str", "default": "${TMPDIR:-/tmp}"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    site = module.params["site"]
    with failing(module, f"Site {site}: "):
        items, failed = clean_up(module.params, module.check_mode)
    for item, error in failed:
        module.warn(
            f"Site {site}: {item.name} cannot be removed: {error}. If it remains after the next glidein.ops.cleanup, "
            "remove it on the login node."
        )
    left = [item for item, _error in failed]
    removed = [item for item in items if item not in left]
    module.exit_json(
        changed=bool(removed),
        removed=[dict(item._asdict()) for item in removed],
        summary=summary(site, removed, module.check_mode),
        diff={
            "before_header": site,
            "after_header": site,
            "before": "".join(f"{item.kind} {item.name}: {item.reason}\n" for item in removed),
            "after": "",
        },
    )


if __name__ == "__main__":
    main()
