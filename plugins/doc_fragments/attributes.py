# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Author of all modules, and their support of check mode and diff mode."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
author:
  - the glidein.ops authors (@glidein-ops)
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

    DIFF = r"""
author:
  - the glidein.ops authors (@glidein-ops)
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
"""

    # Modules that only read.
    INFO = r"""
author:
  - the glidein.ops authors (@glidein-ops)
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: N/A
"""

    # Modules of the action group glidein. Those of the action group site have the fragment `site`.
    ACTIONGROUP_GLIDEIN = r"""
attributes:
  action_group:
    description: Use C(group/...) of these in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - glidein.ops.glidein
"""
