# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the unit tests; makes `ansible_collections.glidein.ops` importable outside ansible-test.

ansible-test sets up the import path itself.
"""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Every run uses the same examples, so that no check fails at random: 50 of each property, so that the unit tests stay
# short. HYPOTHESIS_PROFILE=thorough uses 200, and HYPOTHESIS_PROFILE=explore generates 1,000 new ones.
# A busy machine is no reason to fail.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, max_examples=50, **_PATIENT)
settings.register_profile("thorough", derandomize=True, max_examples=200, **_PATIENT)
settings.register_profile("explore", max_examples=1000, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# .../ansible_collections/glidein/ops/tests/unit/conftest.py; in a bare checkout there is no path to add.
_COLLECTIONS = next(
    (folder.parent for folder in Path(__file__).resolve().parents if folder.name == "ansible_collections"), None
)
if _COLLECTIONS and str(_COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(_COLLECTIONS))


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Install a strict stand-in for Slurm's commands first in PATH; see support/fake_slurm.py."""
    from ansible_collections.glidein.ops.tests.unit.support.fake_slurm import FakeSlurm

    fake = FakeSlurm(str(tmp_path / "slurm"))
    monkeypatch.setenv("PATH", fake.bin + os.pathsep + os.environ["PATH"])
    return fake


@pytest.fixture
def site_home(tmp_path):
    """Return the home of a login node with the site `lab` deployed: version aaaaaaaaaaaa and a credential."""
    from ansible_collections.glidein.ops.tests.unit.support.builders import make_site_home

    return make_site_home(tmp_path / "home")


@pytest.fixture
def server():
    """Start a demand server whose answers the test sets."""
    from ansible_collections.glidein.ops.tests.unit.support.http_server import answering

    with answering() as answers:
        yield answers
