# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m glidein_demand`: the same as the command `glidein-demand`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
