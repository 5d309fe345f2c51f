# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that run on a site's login node."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
notes:
  - Runs on the site's login node, as the user who submits the glideins.
  - Options of the site that are not given are taken from the host's variables C(glidein_...) of the same name, which
    C(docs/variables.md) describes.
options:
  deployment:
    description: Name of the deployment, 1 to 64 letters, digits, dots, dashes or underscores.
    type: str
    required: true
  site:
    description: Name of the site; same characters as O(deployment).
    type: str
    required: true
  scheduler:
    description: The batch system, a value of C(glidein_scheduler).
    type: str
    required: true
  scheduler_options:
    description: Options of the batch system, the keys of C(glidein_scheduler_options).
    type: dict
    default: {}
  entries:
    description: The site's entries, the mapping C(glidein_entries).
    type: dict
    required: true
  limits:
    description: Limits of the whole site, the keys of C(glidein_limits). A missing key means no limit.
    type: dict
    default: {}
  home:
    description: Directory on the login node that has the site's files in a subdirectory of the site's name.
    type: str
    default: ~/.glidein
  log_dir:
    description: Directory of the batch jobs' output and the glideins' logs. By default C(log) in the site's directory.
    type: str
"""
