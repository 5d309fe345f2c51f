# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demand server of glidein.ops: what an HTCondor pool needs, and what glideins it has."""

__version__ = "0.1.0"
