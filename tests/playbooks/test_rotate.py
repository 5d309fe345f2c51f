# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook rotate before it withdraws tokens, in a real ansible-playbook run."""

import json
import sys

import pytest
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import run_playbook

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "for its glideins. Nothing was withdrawn. Run glidein.ops.deploy for it, or set glidein_revoked"),
        # The site's glideins use no token, but its gateway has one of the old signing key.
        (
            {"glidein_credential": "pool_password", "glidein_gateway": True},
            "for its gateway. Nothing was withdrawn. Run glidein.ops.renew for it.",
        ),
    ],
)
def test_no_token_is_withdrawn_while_a_login_node_has_another_than_the_central_manager(tmp_path, variables, expected):
    folder = tmp_path / "inventory"
    for path in ("home/rotated/credential", "gateway/rotated/tokens.d/pool"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("old token\n")
    folder.mkdir()
    directories = {"glidein_home": str(tmp_path / "home"), "glidein_gateway_dir": str(tmp_path / "gateway")}
    groups = {
        "glidein_central_manager": {"hosts": {"cm": LOCAL}},
        "glidein_sites": {"hosts": {"login": {**LOCAL, **directories, **variables, "glidein_site": "rotated"}}},
    }
    (folder / "hosts.json").write_text(json.dumps(groups))
    status, output = run_playbook("glidein.ops.rotate", "-i", folder, "-e", "rotate_finish=true", folder=folder)
    text = " ".join(output.split())
    assert status != 0 and "PLAY [Withdraw the old tokens]" not in output, output
    assert f"The login node of rotated does not have the current token of the central manager {expected}" in text
