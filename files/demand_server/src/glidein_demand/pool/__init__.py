# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries of the pool's schedds, collector and negotiator, and the conversion of their ads."""
