# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names every file that declares tables, so that a new database gets them all."""

from . import glideins, history, lease_limits, leases, owners, passed, reports, samples, switch, tokens, work

__all__ = [
    "glideins", "history", "lease_limits", "leases", "owners", "passed", "reports", "samples", "switch", "tokens",
    "work",
]  # fmt: skip
