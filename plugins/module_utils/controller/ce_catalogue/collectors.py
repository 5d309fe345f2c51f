# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries of collectors for the ads of CEs: one process for each collector, all at the same time."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.controller.ce_catalogue import read_ads
from ansible_collections.glidein.ops.plugins.module_utils.errors import (
    CommandError,
    CommandStoppedError,
    CommandTimeoutError,
    GlideinError,
)

_OUTPUT_BYTES_MOST = 64 << 20
_QUERIES_AT_ONCE = 16


class NoBindingsError(GlideinError):
    """HTCondor's Python bindings are not installed for the controller's Python."""


def query(collectors, timeout_s, program=read_ads.__file__):
    """Return ({collector: records}, {collector: why it did not answer}). Raises NoBindingsError.

    A record is {"name": text for messages, and "ad": {attribute: value} or "error": text}. collectors: HOST:PORT, each
    once; program: path of read_ads.py.
    """
    # Without a configuration of HTCondor, the query is not authenticated.
    environment = dict(os.environ, CONDOR_CONFIG=os.environ.get("CONDOR_CONFIG") or "ONLY_ENV")
    runner = Runner(environment, timeout_s, _OUTPUT_BYTES_MOST)
    answers, failures = {}, {}

    def ask(collector):
        try:
            output = runner.run([sys.executable, program, collector])
            answers[collector] = [json.loads(line) for line in output.splitlines()]
        except CommandError as error:
            failures[collector] = error

    with ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
        for result in [pool.submit(ask, collector) for collector in collectors]:
            result.result()
    if any(error.rc == read_ads.NO_BINDINGS for error in failures.values()):
        raise NoBindingsError(
            "The Python library htcondor is missing on the controller. To install it, run "
            f"{sys.executable} -m pip install 'htcondor>=25.0,<26'"
        )
    # In the order of the collectors.
    return (
        {collector: answers[collector] for collector in collectors if collector in answers},
        {collector: _reason(failures[collector], timeout_s) for collector in collectors if collector in failures},
    )


def printable(text):
    """Return a text without control characters, for a message."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _reason(error, timeout_s):
    """Return why a collector did not answer."""
    if isinstance(error, CommandTimeoutError):
        return f"no answer within {timeout_s} s"
    if isinstance(error, CommandStoppedError):
        return f"its answer has more than {_OUTPUT_BYTES_MOST >> 20} MB"
    return printable(excerpt(error.stderr)) or f"the query ended with the exit status {error.rc}"
