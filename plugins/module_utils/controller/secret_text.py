# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of names and lines of secrets in files of operators. Such lines are not shown."""

import re

_WORDS = "token|secret|passw|passphrase|credential|access_?key|api[_-]?key|private_?key|jwt|signature|authorization"
SECRET_NAME = re.compile(_WORDS, re.IGNORECASE)
# A line that sets a secret, or has a URL with a user, who may have a password there.
SECRET_TEXT = re.compile(rf"://\S*@|(?:{_WORDS})[\w-]*['\"]?\s*[:=](?!\s*!vault)", re.IGNORECASE)
