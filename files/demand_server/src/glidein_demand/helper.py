# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's helper process, `python -m glidein_demand.helper FD` (pool/reader.py): what carries out which order."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .pool import asking, reader
from .web import ahead


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """The answer to an order, a message whose "what" says what is to be done; raises what goes wrong."""
    return ahead.carry_out(order) if order["what"] == ahead.WHAT else asking.carry_out(order)


if __name__ == "__main__":
    importlib.import_module("htcondor2")  # once, so that it is there in every process that is forked
    sys.exit(reader.serve(int(sys.argv[1]), carry_out))
