# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a session: since when it exists or is lost; and the notification of its loss.

The record is a small JSON file beside the socket. If the file is lost, the times start again.
"""

import json
import os
from typing import Any, Dict, List, Optional

from ansible.module_utils.urls import open_url
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError

# Times in epoch seconds. told: whether a notification of the loss was sent; tried: when the last one was attempted;
# refused: when stored answers did not lead to a session.
Record = Dict[str, Any]
_NEW: Record = {"opened": None, "seen": None, "lost": None, "told": False, "tried": None, "refused": None}

# A failed notification is repeated after this time: cycles run every few minutes, and each waits for the hook.
NOTIFY_AGAIN_S = 600
# The time limit of the hook, for which a cycle and all its sites wait.
TIMEOUT_S = 5


def path_of(control_path: str) -> str:
    return control_path + ".json"


def read(control_path: str) -> Record:
    """Return the Record of a session."""
    try:
        with open(path_of(control_path), encoding="utf-8") as handle:
            return {**_NEW, **json.load(handle)}
    except (OSError, ValueError, TypeError):
        return dict(_NEW)


def write(control_path: str, record: Record) -> None:
    """Replace the record atomically; only its owner can read it."""
    write_atomically(path_of(control_path), json.dumps(record))


def opened(now: int) -> Record:
    """Return the record of a session that was just opened."""
    return dict(_NEW, opened=now, seen=now)


def lost(record: Record, now: int, **changes: Any) -> Record:
    """Return the record of a session that does not exist, with further changes."""
    return dict(record, lost=record["lost"] or now, **changes)


def checked(record: Record, live: bool, now: int) -> Record:
    """Return the record after a check of the session."""
    if live:
        return dict(record, opened=record["opened"] or now, seen=now, lost=None, told=False, tried=None)
    return lost(record, now)


def is_notification_due(record: Record, now: int) -> bool:
    """Return whether a notification of the loss is due: once, and again some time after one has failed."""
    return not record["told"] and (record["tried"] is None or not 0 <= now - record["tried"] < NOTIFY_AGAIN_S)


def notified(record: Record, since: Optional[int]) -> Record:
    """Return the record after a notification of this loss, unless a login has ended the loss meanwhile."""
    return dict(record, told=True) if record["lost"] == since else record


def notify(hook: Dict[str, Any], notice: Dict[str, Any]) -> str:
    """Run the hook {"command": argument list, "url": address}, either or both; return the errors.

    notice: {"text", "site", "host", "login_needed_since"}. The command reads the text from its standard input, as mail
    does, and finds the other values in GLIDEIN_* variables. Chat services show `text` of the JSON that is posted to the
    address, which may be a secret: no message contains it.
    """
    failures = []
    if hook.get("command"):
        failures.append(_run(hook["command"], notice))
    if hook.get("url"):
        failures.append(_post(hook["url"], notice))
    return "; ".join(filter(None, failures))


def _run(argv: List[str], notice: Dict[str, Any]) -> Optional[str]:
    """Run the command; return its error."""
    environment = {f"GLIDEIN_{name.upper()}": str(value) for name, value in notice.items() if name != "text"}
    try:
        Runner({**os.environ, **environment}, TIMEOUT_S).run_with_input(argv, notice["text"] + "\n")
    except CommandError as error:
        return str(error)
    return None


def _post(url: str, notice: Dict[str, Any]) -> Optional[str]:
    """Post the notice; return the error."""
    data, headers = json.dumps(notice).encode("utf-8"), {"Content-Type": "application/json"}
    try:
        open_url(url, data=data, method="POST", headers=headers, timeout=TIMEOUT_S, follow_redirects="none")
    except Exception as error:  # each library has its own errors, whose texts may contain the address
        status = getattr(error, "code", None)
        return f"on_loss.url: the request failed: {status or excerpt(type(error).__name__)}"
    return None
