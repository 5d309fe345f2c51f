# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random numbers that depend on a seed and on what they are for, and on nothing that a policy does."""

import random


def luck(*names):
    """A generator of its own for these names, the seed among them."""
    return random.Random("/".join(map(str, names)))  # noqa: S311 - a simulation wants numbers that can be repeated
