# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command glidein-demand on the demand server's host."""

import json
import os

from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, clean_environment, quote_argv
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError

PROGRAM = "/opt/glidein-demand/current/bin/glidein-demand"
CONFIG = "/etc/glidein-demand/config.toml"


def demand_server_argument_spec():
    """Return the argument spec of the doc fragment `demand_server`."""
    return {"program": {"type": "path", "default": PROGRAM}, "config": {"type": "path", "default": CONFIG}}


class DemandServer:
    """Runs commands of the demand server. params: values of demand_server_argument_spec."""

    def __init__(self, params, runner=None):
        self._argv = [params["program"], "--config", params["config"]]
        self._runner = runner or Runner(clean_environment(os.environ))

    def run(self, *arguments, stdin=None):
        """Return the standard output of a command. stdin: text for its standard input. Raises CommandError."""
        argv = self._argv + list(arguments)
        return self._runner.run(argv) if stdin is None else self._runner.run_with_input(argv, stdin)

    def read(self, *arguments, stdin=None):
        """Return the JSON value that a command prints. Raises CommandError or OutputError."""
        text = self.run(*arguments, stdin=stdin)
        try:
            return json.loads(text)
        except ValueError as error:
            command = quote_argv(self._argv + list(arguments))
            raise OutputError(f"{command} printed no JSON: {text[:80]!r}") from error
