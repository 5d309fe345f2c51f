# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notification that a session was lost: a command that reads the text, or a URL to which JSON is posted."""

import json
import os
import tempfile
from typing import Any, Dict, List, Optional

from ansible.module_utils.urls import open_url
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, GlideinError

# The time limit of the hook, for which a cycle and all its sites wait.
TIMEOUT_S = 5


class NoticeError(GlideinError):
    """The notification failed."""


def body(site: str, host: str, since: Optional[int], message: str) -> Dict[str, Any]:
    """Return the notification: chat services show `text`, programs read the other keys."""
    return {"text": f"{site}: {message}", "site": site, "host": host, "login_needed_since": since}


def notify(hook: Dict[str, Any], notice: Dict[str, Any]) -> None:
    """Run the hook {"command": argument list, "url": address}, either or both. Raises NoticeError.

    The command reads the text from its standard input, as mail does, and finds the values in GLIDEIN_* variables. The
    address may be a secret, so no message contains it.
    """
    failures = [text for text in (_run(hook.get("command"), notice), _post(hook.get("url"), notice)) if text]
    if failures:
        raise NoticeError("; ".join(failures))


def _run(argv: Optional[List[str]], notice: Dict[str, Any]) -> Optional[str]:
    if not argv:
        return None
    environment = dict(
        os.environ,
        GLIDEIN_SITE=notice["site"],
        GLIDEIN_HOST=notice["host"],
        GLIDEIN_LOGIN_NEEDED_SINCE=str(notice["login_needed_since"]),
    )
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as text:
        text.write(notice["text"] + "\n")
        text.flush()
        try:
            Runner(environment, TIMEOUT_S).run(argv, stdin=text.name)
        except CommandError as error:
            return str(error)
    return None


def _post(url: Optional[str], notice: Dict[str, Any]) -> Optional[str]:
    if not url:
        return None
    try:
        open_url(
            url,
            data=json.dumps(notice).encode("utf-8"),
            method="POST",
            headers={"Content-Type": "application/json"},
            timeout=TIMEOUT_S,
            follow_redirects="none",
        )
    except Exception as error:  # each library has its own errors, whose texts may contain the address
        status = getattr(error, "code", None)
        return f"on_loss.url: the request failed: {status or excerpt(type(error).__name__)}"
    return None
