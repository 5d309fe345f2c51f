#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: site_payload
short_description: Collect what a deployment installs on a login node
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Reads the site's variables and the files that they name on the controller. The list of tarballs and the site's token
    come from the central manager, to which the task is delegated, or from supplied files.
  - The result contains the token. Errors are in RV(error), so that C(no_log) does not hide them.
extends_documentation_fragment: glidein.ops.attributes.info
options:
  credential_only:
    description: Collect the token only.
    type: bool
    default: false
"""

EXAMPLES = "\n# See roles/site/tasks/payload.yml\n"

RETURN = r"""
error:
  description: The errors, or an empty text.
  returned: always
  type: str
missing:
  description: Files that the central manager does not have yet, only in check mode.
  returned: always
  type: list
  elements: str
credential:
  description: The token, or null with a pool password.
  returned: always
  type: str
sources:
  description: The sources of M(glidein.ops.file_tree) for the version of the payload.
  returned: always
  type: list
  elements: dict
fetched:
  description: The tarballs to fetch from the central manager, with C(name), C(src), C(file) and C(sha256).
  returned: always
  type: list
  elements: dict
cache:
  description: The directory of the controller in which the tarballs are.
  returned: always
  type: str
"""
