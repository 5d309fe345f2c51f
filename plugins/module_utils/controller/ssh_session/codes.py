# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Codes of RFC 6238 (TOTP), none of which is given twice. With the library pyotp."""

import datetime
import fcntl
import hashlib
import os
import time
import traceback

from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError

PYOTP_ERROR = None
try:
    import pyotp
except ImportError:
    pyotp = None
    PYOTP_ERROR = traceback.format_exc()

# A code that is given in the last seconds of its time could arrive after it.
_MARGIN_S = 2
# A step further in the future than this was noted by a clock that was wrong.
_AHEAD_MOST = 2


class CodeError(GlideinError):
    """No code can be given now."""


def generator(secret):
    """Return pyotp's TOTP of a seed, in base32 or as otpauth:// address. Raises InputError that does not show it."""
    try:
        totp = pyotp.parse_uri(secret) if secret.startswith("otpauth:") else pyotp.TOTP(secret.replace(" ", ""))
        if not isinstance(totp, pyotp.TOTP):
            raise ValueError("not time-based")
        totp.at(0)
    except Exception:  # whatever pyotp and base64 raise may quote the seed
        raise InputError(
            "prompts: a seed for codes is not accepted (not shown); allowed: base32, or otpauth://totp/..."
        ) from None
    return totp


def wait_and_step(now, interval, last):
    """Return (seconds to wait, step): the first time step that was not used yet, and whose code will arrive in time.

    now: epoch seconds; last: the step whose code was given last, or None. Raises CodeError.
    """
    step = int((now + _MARGIN_S) // interval)
    if last is not None and last >= step:
        if last - step >= _AHEAD_MOST:
            raise CodeError(
                f"the last code was given for a time {(last - step) * interval} s in the future: is the clock right?"
            )
        step = last + 1
    return max(0.0, step * interval - now), step


def code(secret, directory, clock=time.time, sleep=time.sleep):
    """Return a code that was never given before, by this or another process; waits up to one step for it.

    directory: where the last used step of each seed is noted, in a file named after the seed's hash. Raises InputError,
    CodeError.
    """
    totp = generator(secret)
    name = hashlib.sha256(b"glidein.ops totp\0" + totp.secret.encode()).hexdigest()[:16]
    descriptor = os.open(os.path.join(directory, f"{name}.totp"), os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        noted = handle.read().strip()
        delay, step = wait_and_step(clock(), totp.interval, int(noted) if noted.isdigit() else None)
        sleep(delay)
        # Noted before it is given: a login that dies half-way has used it, too.
        handle.seek(0)
        handle.truncate()
        handle.write(f"{step}\n")
        handle.flush()
        os.fsync(handle.fileno())
    return totp.at(datetime.datetime.fromtimestamp(step * totp.interval, datetime.timezone.utc))
