# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deployment of a test's own sites to the lab, whose pool and demand server are already deployed."""

from conftest import STATE, host, playbook

TOKEN_COMMAND = "runuser -u glidein-demand -- /opt/glidein-demand/current/bin/glidein-demand token"  # noqa: S105


def make_demand_token(name):
    """Create a site's token of the demand server, and store it where the lab's inventory reads it."""
    # An earlier run may have made one.
    command = f"{TOKEN_COMMAND} revoke {name} >/dev/null 2>&1; {TOKEN_COMMAND} create {name} 2>/dev/null"
    secret = host("cm", sudo=True).check_output(command)
    path = STATE / "demand_tokens" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(secret + "\n", encoding="ascii")
    path.chmod(0o600)


def deploy_sites(inventory, *names, tags="tokens,sites", arguments=()):
    """Deploy sites in one run without the roles of the pool and the demand server; return the run.

    names: of the hosts in the inventory, which are those of the sites, too.
    """
    for name in names:
        make_demand_token(name)
    limit = ",".join(["cm", *names])
    done = playbook("deploy", "-l", limit, "--tags", tags, *arguments, inventory=inventory)
    assert done.rc == 0, done
    return done
