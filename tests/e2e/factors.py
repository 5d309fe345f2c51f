# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user of the lab's login nodes with a password and a time-based code, and a site that is reached over a session."""

import secrets

import pyotp

# A new code is available every five seconds instead of thirty. On a busy machine, one may arrive a minute later.
STEP_S = 5
ARGUMENTS = "{{ lookup('glidein.ops.ssh_session_args') }}"


class Factors:
    """The password and the seed of a user, set for the test."""

    def __init__(self, root, user):
        self.password = secrets.token_urlsafe(12)
        self.seed = pyotp.random_base32()
        lines = [self.seed, f'" STEP_SIZE {STEP_S}', '" WINDOW_SIZE 25', '" DISALLOW_REUSE', '" TOTP_AUTH']
        path = f"/home/{user}/.google_authenticator"
        root.check_output("umask 077; cat > %s <<'END'\n" + "\n".join(lines) + "\nEND", path)
        root.check_output("chown %s: %s && chmod 400 %s", user, path, path)
        root.check_output("chpasswd <<'END'\n" + f"{user}:{self.password}\nEND")

    def code(self):
        return pyotp.TOTP(self.seed, interval=STEP_S).now()

    def prompts(self, **changes):
        """Return stored answers for both prompts."""
        seed = changes.get("seed", self.seed)
        code = {
            "match": "verification code",
            "answer": "totp",
            "secret": f"otpauth://totp/lab?secret={seed}&period={STEP_S}",
        }
        return [code, {"match": "password", "secret": changes.get("password", self.password)}]


def session_variables(directory):
    """Return the variables of a site that is reached as glidein2fa; directory: of the sessions' sockets."""
    return {
        "ansible_host": "slurm-2fa",
        "ansible_ssh_args": ARGUMENTS,
        "glidein_ssh_session": True,
        "glidein_ssh_session_dir": directory,
        "glidein_ssh_prompts": [],
    }
