# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaks HTTP: JSON-RPC, the status page, metrics."""
