# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTCondor's commands and configuration on this host."""

import os
import re

from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, OutputError

_UNDEFINED = "Not defined"


class NotInstalledError(CommandError):
    """This host has no condor_config_val."""


class Condor:
    """Runs HTCondor's commands on this host, and reads its configuration."""

    def __init__(self, runner=None):
        self._runner = runner or Runner(clean_environment(os.environ))

    def run(self, argv, stdin=None):
        """Return the standard output of a command. stdin: text for its standard input. Raises CommandError."""
        return self._runner.run(argv) if stdin is None else self._runner.run_with_input(argv, stdin)

    def setting(self, name, daemon=None):
        """Return the value of a configuration setting, or None if it is not defined.

        daemon: None for the configuration files, or the subsystem of a running daemon, such as "collector".
        Raises CommandError.
        """
        try:
            text = self.run(["condor_config_val"] + (["-" + daemon] if daemon else []) + [name]).strip()
        except CommandError as error:
            if error.rc == 1 and error.stderr.startswith(_UNDEFINED):
                return None
            if error.rc is None and isinstance(error.__cause__, FileNotFoundError):
                raise NotInstalledError(
                    f"HTCondor is not installed on this host: {error} The role glidein.ops.central_manager installs it "
                    "if central_manager_install is true.",
                    error.cmd,
                ) from error
            raise
        return None if text == _UNDEFINED else text

    def required_setting(self, name):
        """Return the value of a configuration setting. Raises CommandError, or OutputError if it is not defined."""
        value = self.setting(name)
        if not value:
            raise OutputError(f"HTCondor's configuration has no {name}: `condor_config_val {name}` prints nothing.")
        return value


def words(value):
    """Return the words of a list in HTCondor's configuration: blanks and commas separate them. None has none."""
    return [word for word in re.split(r"[,\s]+", value or "") if word]
