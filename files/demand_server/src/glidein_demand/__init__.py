# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demand server of glidein.ops: the idle jobs of an HTCondor pool, and its glideins."""

__version__ = "0.1.0"
