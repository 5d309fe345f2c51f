# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CE of the lab, for the tests, the demo and the benches: its tokens, and the authority of its certificate.

As a program, it prepares the access point of the lab that LAB names: `cm` trusts the authority, and alice gets a token
of the CE (IDTOKEN) and a SciToken, which are valid for a day.
"""

import os
import shlex
import subprocess
from pathlib import Path

# Names in the directory inventories.
INVENTORIES = ("lab", "lab-ce")
CE = "ce:9619"
SCHEDD = "ce@"
ISSUER = "https://ce:8443"
STATE = Path(__file__).resolve().parent.parent / ".lab" / (os.environ.get("LAB") or "glidein-lab")
# The user in whose name pilots run at the site.
USER = "glidein"
# Of the user alice. HTCondor's tools find the first one by themselves.
IDTOKEN_FILE = "/home/alice/.condor/tokens.d/ce"
SCITOKEN_FILE = "/home/alice/ce.scitoken"
DAY_S = 86400


def ssh(alias, command, stdin=None):
    """Run a command on a host of the lab; return its output."""
    done = subprocess.run(
        ["ssh", "-F", str(STATE / "ssh_config"), alias, command],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{alias}: {command}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def is_htcondor_ce():
    """Return whether the host runs HTCondor-CE, and not HTCondor in its place."""
    return "Not defined" not in ssh("ce-root", "condor_ce_config_val HTCondorCEVersion 2>&1 || true")


def idtoken(life_s=DAY_S):
    """Return a token that the CE signs for its user."""
    create = f"condor_token_create -identity {USER}@users.htcondor.org -authz READ -authz WRITE -lifetime {life_s}"
    return ssh("ce-root", f"CONDOR_CONFIG=/etc/condor-ce/condor_config {create}")


def scitoken(life_s=DAY_S, **claims):
    """Return a SciToken of the lab's issuer; with a negative life, one that has expired.

    claims: audience, scope, subject, issuer; see tests/lab/images/ce/issuer.py.
    """
    options = [part for name, value in claims.items() for part in (f"--{name}", value)]
    return ssh("ce-root", shlex.join(["lab-scitoken", "--life", str(life_s), *options]))


def place(path, token, alias="cm-alice"):
    """Write a token into a private file, atomically."""
    folder = shlex.quote(str(Path(path).parent))
    fresh, path = shlex.quote(f"{path}.new"), shlex.quote(path)
    ssh(alias, f"umask 077 && mkdir -p {folder} && cat > {fresh} && mv {fresh} {path}", token)


def trust_authority(alias="cm"):
    """Let a host trust the authority of the CE's certificate. SciTokens are sent through TLS only."""
    authority = ssh("ce-root", "cat /etc/ce-lab/ca.crt")
    command = "sudo tee /usr/local/share/ca-certificates/ce-lab.crt && sudo update-ca-certificates"
    ssh(alias, f"{{ {command}; }} >/dev/null 2>&1", authority)


def main():
    """Prepare the access point."""
    trust_authority()
    place(IDTOKEN_FILE, idtoken())
    place(SCITOKEN_FILE, scitoken())
    print(f"cm trusts the authority of the CE; alice has its tokens {IDTOKEN_FILE} and {SCITOKEN_FILE}")


if __name__ == "__main__":
    main()
