# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the facts of a login node to the variables of its site. Controller only.

The facts are those that the module site_facts returns. docs/discovery.md describes the steps.
"""
