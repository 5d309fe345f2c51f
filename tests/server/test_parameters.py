# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the parameters' checks that the tests of the methods do not show."""

import subprocess
import sys

FIRST_USES = """
import importlib, sys, threading

sys.setswitchinterval(1e-6)
entry = {"entry": "q", "shape": "s", "glideins": [{"id": "1", "running_s": 1}]}
for _number in range(60):
    sys.modules.pop("glidein_demand.web.parameters", None)
    parameters = importlib.import_module("glidein_demand.web.parameters")
    barrier = threading.Barrier(8)

    def check():
        barrier.wait()
        report = {"site": "A", "as_of": 1, "entries": [entry]}
        for method, given in ((parameters.Report, report), (parameters.Report, {"unserved": [{}]})):
            try:
                parameters.checked(given, method)
            except ValueError:
                pass  # only the crash of the process matters

    threads = [threading.Thread(target=check) for _thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


def test_the_first_calls_after_a_start_may_come_at_the_same_time():
    done = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
