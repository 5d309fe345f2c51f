# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP interface of the demand server: JSON-RPC, the status page and the metrics."""
