# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a plan in tests. builders.py is also that of login nodes, which have no code of the controller."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import PREFIX
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import Options, plan_options


def options(**variables):
    """Return the options of make_plan. variables: without their prefix; the others have their defaults."""
    assert set(variables) <= set(Options._fields)
    return plan_options({PREFIX + name: value for name, value in variables.items()})
