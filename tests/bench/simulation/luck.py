# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random numbers that depend only on a seed and on their purpose, not on what a policy does."""

import random


def luck(*names):
    """Return a separate generator for these names, which include the seed."""
    return random.Random("/".join(map(str, names)))  # noqa: S311 - a simulation needs reproducible numbers
