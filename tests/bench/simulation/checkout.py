# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to the checkout's own code for the simulation: the collection's modules and the demand server's rules."""

import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "files" / "demand_server" / "src"


def importable():
    """Make `ansible_collections.glidein.ops` and `glidein_demand` importable as they are in this checkout.

    A collection that is already importable is used unchanged.
    """
    if str(SERVER) not in sys.path:
        sys.path.append(str(SERVER))
    try:
        import ansible_collections.glidein.ops  # noqa: F401
    except ImportError:
        for name, paths in (
            ("ansible_collections", []),
            ("ansible_collections.glidein", []),
            ("ansible_collections.glidein.ops", [str(ROOT)]),
        ):
            module = types.ModuleType(name)
            module.__path__ = paths
            sys.modules[name] = module
