# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Univa (Altair) Grid Engine. Sources: its administrator's and user's guides, 8.3 to 8.6, and their manual pages."""

from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import RequestOption
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.sge import GridEngine


class UnivaGridEngine(GridEngine):
    """Grid Engine with a memory resource that is counted and enforced, and further states of suspension."""

    name = "uge"
    # m_mem_free: needs no configuration of the hosts' memory, and is the limit if cgroups are enabled.
    resources = dict(GridEngine.resources, memory=RequestOption("m_mem_free", None))
    # N: suspended, and its resources are given to another job; P: preempted.
    letters_of_suspension = GridEngine.letters_of_suspension + "NP"
