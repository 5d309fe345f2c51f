# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a token for the demand server. Separate from demand_client, whose import takes a third of a second."""

import re

TOKEN = re.compile(r"^[!-~]+\Z")
INVALID = "invalid (not shown); expected ASCII characters without spaces and line breaks"
