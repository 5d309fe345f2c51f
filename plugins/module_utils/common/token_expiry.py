# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The expiry time of a site's token. The functions return no other part of the token, which is a secret."""

import base64
import json
import time

REMEDY = "run the playbook glidein.ops.deploy"
# Time enough to renew a token, also over a weekend.
MIN_LEFT_S = 3 * 86400

# 9999-12-31 23:59:59 UTC, the last second that a date of four digits can name.
LATEST = 253402300799


def claims(text):
    """Return the claims (dict) of a JSON Web Token (RFC 7519); its signature is not verified.

    Raises ValueError or RecursionError for another text.
    """
    parts = text.strip().split(".")
    if len(parts) != 3:
        raise ValueError("not a token")
    payload = parts[1] + "=" * (-len(parts[1]) % 4)
    found = json.loads(base64.urlsafe_b64decode(payload.encode("utf-8")).decode("utf-8"))
    if not isinstance(found, dict):
        raise ValueError("not a token")
    return found


def expires(text):
    """Return the expiry time of a token in epoch seconds, or None if it has no valid one.

    text: a JSON Web Token (RFC 7519), such as HTCondor's IDTOKENs. The signature is not verified.
    """
    try:
        end = claims(text).get("exp")
    except (ValueError, RecursionError):
        return None
    if isinstance(end, bool) or not isinstance(end, (int, float)) or not 0 <= end <= LATEST:
        return None
    return int(end)


def credential_expires(path):
    """Return the expiry time of the token in a file in epoch seconds; None without a file or an expiry time."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return expires(handle.read())
    except OSError:
        return None


def utc(epoch_s):
    """Return a time as text, such as 2026-11-21 01:29:42 UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(epoch_s))
