# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies that decide how many glideins are ordered: this plan, and PyGlidein's and GlideinWMS's rules."""

from simulation.policies.glideinwms import GlideinWMS
from simulation.policies.plan import PLANS
from simulation.policies.pyglidein import PyGlidein

POLICIES = {**PLANS, "pyglidein": PyGlidein, "glideinwms": GlideinWMS}
