# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Univa (Altair) Grid Engine. Sources: its administrator's and user's guides, 8.3 to 8.6, and their manual pages."""

from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.base import Form
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.sge import GridEngine


class UnivaGridEngine(GridEngine):
    """As Grid Engine, with memory that is counted and enforced, and more ways of being suspended."""

    name = "uge"
    # m_mem_free: what the hosts have is known without configuration, and is the limit where cgroups are on.
    resources = dict(GridEngine.resources, memory=Form("m_mem_free", None))
    # N: suspended and its resources given to another job; P: preempted.
    letters_of_suspension = GridEngine.letters_of_suspension + "NP"
