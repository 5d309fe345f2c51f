# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes of all modules."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
"""

    # Modules of the action group glidein.
    ACTIONGROUP_GLIDEIN = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/...) of these in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - glidein.ops.glidein
"""

    # Modules of the action groups glidein and site.
    ACTIONGROUP_SITE = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/...) of these in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - glidein.ops.glidein
      - glidein.ops.site
"""

    # Modules that only read.
    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: The module only reads.
  diff_mode:
    support: N/A
    details: The module only reads.
"""

    # Modules that change something.
    CHANGES = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
"""

    CHANGES_WITH_DIFF = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
"""
