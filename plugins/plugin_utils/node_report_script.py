# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of a compute node's report as one text, because a batch job has no other files."""

import os
import re

FILES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "files")
SCRIPT = os.path.join(FILES, "discovery", "node_report.sh")
_READ_FILE = re.compile(
    r'^ *(?:# shellcheck source=.*\n *)?\. "\$NODE_REPORT_PAYLOAD/(?P<path>[a-z_/.]+)"$', re.MULTILINE
)


def node_report_script() -> str:
    """Return the text of node_report.sh with the contents of the files that it reads, in the places of these lines."""
    text = _READ_FILE.sub(lambda match: _read(os.path.join(FILES, "glidein", match.group("path"))), _read(SCRIPT))
    return text + "\n"


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as handle:
        return handle.read().rstrip("\n")
