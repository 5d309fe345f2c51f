# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the pool: schedds and collector, and what their answers mean."""
