#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: payload_versions
short_description: Remove versions of the payload that no glidein uses
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Keeps the current version and those that a queued or running glidein may still need. Works under the same lock as
    M(glidein.ops.glideins), so that no glidein is submitted with a version that is being removed.
extends_documentation_fragment:
  - glidein.ops.attributes.diff
  - glidein.ops.site
options:
  patience:
    description: Seconds to wait for another run that is changing the site's glideins.
    type: int
    default: 60
"""

EXAMPLES = "\n# See roles/site/tasks/tidy.yml\n"

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.site.site_queue import SiteQueue, site_argument_spec


def decide(queue):
    """Return (versions to remove, versions to keep) of a SiteQueue, sorted. Raises GlideinError."""
    versions = queue.read()[1]["versions"]
    unused = sorted(version for version, usage in versions.items() if not usage["in_use"])
    return unused, sorted(set(versions) - set(unused))


def remove_unused(params, check_mode):
    """Remove the versions that are not in use; return (removed, kept). Raises GlideinError or OSError."""
    queue = SiteQueue(params)
    if check_mode:
        return decide(queue)  # without the lock, whose file would be created
    with queue.directory.lock(params["patience"]):
        removed, kept = decide(queue)
        queue.directory.sweep()
        for version in removed:
            queue.directory.remove_version(version)
    return removed, kept


def main():
    spec = site_argument_spec()
    spec.update(patience={"type": "int", "default": 60})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        removed, kept = remove_unused(module.params, module.check_mode)
    except GlideinError as error:
        module.fail_json(msg=f"Site {module.params['site']}: {error}", **error.details())
    except OSError as error:
        module.fail_json(msg=f"Site {module.params['site']}: a version cannot be removed: {error}")
    diff = {
        "before": "".join(f"{version}\n" for version in sorted(removed + kept)),
        "after": "".join(f"{version}\n" for version in kept),
    }
    module.exit_json(changed=bool(removed), removed=removed, kept=kept, diff=diff)


if __name__ == "__main__":
    main()
