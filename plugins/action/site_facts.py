# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin that gives the module site_facts a time limit."""

from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import LoginNodeActionModule


class ActionModule(LoginNodeActionModule):
    """See the module of the same name."""
