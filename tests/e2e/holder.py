# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user with nothing but a site's credential, who tries what it permits."""

import re

STOLEN = "/home/alice/stolen"
GLIDEINS_MAY = {"ADVERTISE_MASTER", "ADVERTISE_STARTD"}
# HTCondor's recommended configuration permits everyone to read.
NOT_FOR_GLIDEINS = {"ADMINISTRATOR", "ADVERTISE_SCHEDD", "CONFIG", "DAEMON", "NEGOTIATOR", "WRITE"}


class Holder:
    """The user alice on the central manager, with files taken from a login node and no other credential."""

    def __init__(self, cm, alice, method="IDTOKENS"):
        self.cm, self.alice, self.method = cm, alice, method

    def steal(self, path, name):
        """Give her a file of the central manager."""
        self.cm.check_output(f"install -d -o alice -m 700 {STOLEN}")
        self.cm.check_output(f"install -o alice -m 600 {path} {STOLEN}/{name}")

    def drop(self):
        self.cm.check_output(f"rm -rf {STOLEN}")

    def run(self, command, stdin=None):
        """Run a tool of HTCondor. stdin: text."""
        settings = (
            f"_CONDOR_SEC_TOKEN_DIRECTORY={STOLEN} _CONDOR_SEC_PASSWORD_FILE={STOLEN}/pool_password "
            f"_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS={self.method} PATH=$PATH:/usr/sbin"
        )
        given = f" <<'END'\n{stdin}\nEND" if stdin else ""
        return self.alice.host.run(f"env {settings} {command} 2>&1{given}")

    def advertise(self, command, **attributes):
        """Send an ad; return whether the collector accepted it."""
        ad = "\n".join(f"{name} = {value}" for name, value in attributes.items())
        return "Sent 1 of 1 ad" in self.run(f"condor_advertise -tcp {command} -", ad).stdout

    def allowed(self, daemon):
        """Return her authorization levels with a daemon."""
        levels = sorted(GLIDEINS_MAY | NOT_FOR_GLIDEINS)
        said = self.run(f"condor_ping -type {daemon} {' '.join(levels)}").stdout
        verdicts = dict(re.findall(r"^(\w+) (command using \(\S+ \S+ and \w+\) succeeded|failed!)", said, re.MULTILINE))
        assert sorted(verdicts) == levels, said
        return {level for level, verdict in verdicts.items() if verdict != "failed!"}
