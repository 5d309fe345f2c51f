# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a token for the demand server looks like. Apart from demand_client, whose import takes a third of a second."""

import re

TOKEN = re.compile(r"^[!-~]+\Z")
UNFIT = "is not accepted (not shown); allowed: ASCII without spaces and line breaks"
