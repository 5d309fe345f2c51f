# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOTP codes (RFC 6238), each of which is used once. They need the library pyotp."""

import datetime
import fcntl
import hashlib
import os
import time
from typing import Any, Callable, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError

try:
    import pyotp
except ImportError:
    pyotp = None  # type: ignore[assignment]  # it is a module otherwise

# A code that is sent in the last seconds of its time step could arrive after the step.
_MARGIN_S = 2
# A stored step further in the future than this comes from a wrong clock.
_AHEAD_MOST = 2


def generator(secret: str) -> "pyotp.TOTP":
    """Return pyotp's TOTP of a seed in base32 or as otpauth:// address. Raises InputError, which does not show it."""
    try:
        totp = pyotp.parse_uri(secret) if secret.startswith("otpauth:") else pyotp.TOTP(secret.replace(" ", ""))
        if not isinstance(totp, pyotp.TOTP):
            raise ValueError("not time-based")
        totp.at(0)
    except Exception:  # the errors of pyotp and base64 may quote the seed
        raise InputError(
            "prompts: the secret of a TOTP answer is invalid (not shown); expected base32 or otpauth://totp/..."
        ) from None
    return totp


def wait_and_step(now: float, interval: int, last: Optional[int], path: str) -> Tuple[float, int]:
    """Return (seconds to wait, step) of the first unused time step whose code can arrive in time.

    now: epoch seconds; last: the step whose code was used last, or None; path: the file that has it. Raises
    GlideinError.
    """
    step = int((now + _MARGIN_S) // interval)
    if last is not None and last >= step:
        if last - step >= _AHEAD_MOST:
            raise GlideinError(
                f"the last code was for a time {(last - step) * interval} s in the future, according to {path}. "
                "Correct this host's clock. If it is right now and was ahead then, remove the file."
            )
        step = last + 1
    return max(0.0, step * interval - now), step


def code(
    secret: str, directory: str, clock: Callable[[], float] = time.time, sleep: Callable[[float], Any] = time.sleep
) -> str:
    """Return a code that no process has used before; wait up to one time step for it.

    directory: it has a file for each seed, named after the seed's hash, with the last used step. Raises InputError,
    GlideinError.
    """
    totp = generator(secret)
    name = hashlib.sha256(b"glidein.ops totp\0" + totp.secret.encode()).hexdigest()[:16]
    path = os.path.join(directory, f"{name}.totp")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        stored = handle.read().strip()
        delay, step = wait_and_step(clock(), totp.interval, int(stored) if stored.isdigit() else None, path)
        sleep(delay)
        # Stored before the code is sent: a login that fails half-way may have used it, too.
        handle.seek(0)
        handle.truncate()
        handle.write(f"{step}\n")
        handle.flush()
        os.fsync(handle.fileno())
    return totp.at(datetime.datetime.fromtimestamp(step * totp.interval, datetime.timezone.utc))
