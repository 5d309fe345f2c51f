#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: cached_fetch
short_description: Fetch a file to the controller unless the controller has it
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - If the controller has a file with this SHA-256, the module does not read the target. Hosts take turns, so that the
    file is fetched once.
extends_documentation_fragment: glidein.ops.attributes
options:
  src:
    description: File on the target.
    type: str
    required: true
  dest:
    description: File on the controller. It gets mode 0600, its directory 0700.
    type: path
    required: true
  sha256:
    description: SHA-256 that the file must have, in hexadecimal digits.
    type: str
    required: true
"""

EXAMPLES = "\n# See roles/site/tasks/main.yml\n"

RETURN = r""" # """
