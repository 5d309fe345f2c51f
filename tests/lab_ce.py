# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CE of the lab, for the tests, the demo and the benches: its tokens, and the authority of its certificate.

As a program, it prepares the access point of the lab that LAB names: `cm` trusts the authority, and alice gets an
IDTOKEN of the CE. With the argument `scitoken`, she gets a SciToken instead.
"""

import shlex
import sys
from pathlib import Path

from lab_ssh import ssh

# Names in the directory inventories.
INVENTORIES = ("lab", "lab-ce")
CE = "ce:9619"
SCHEDD = "ce@"
ISSUER = "https://ce:8443"
# The user in whose name pilots run at the site.
USER = "glidein"
# Files of the user alice on the access point. HTCondor finds an IDTOKEN by itself, and prefers it to a SciToken.
IDTOKEN_FILE = "/home/alice/.condor/tokens.d/ce"
SCITOKEN_FILE = "/home/alice/ce.scitoken"
LIFE_S = 30 * 86400
# Of the access point: HTCondor's defaults wait for minutes.
GRIDMANAGER_SETTINGS = """\
GRIDMANAGER_JOB_PROBE_INTERVAL = 5
GRIDMANAGER_CONTACT_SCHEDD_DELAY = 1
GRIDMANAGER_RESOURCE_PROBE_INTERVAL = 5
C_GAHP_CONTACT_SCHEDD_DELAY = 1
CGAHP_SCHEDD_INTERACTION_TIME = 1
"""


def is_htcondor_ce():
    """Return whether the host runs HTCondor-CE, and not HTCondor in its place."""
    return "Not defined" not in ssh("ce-root", "condor_ce_config_val HTCondorCEVersion 2>&1 || true")


def idtoken(life_s=LIFE_S):
    """Return a token that the CE signs for its user."""
    create = f"condor_token_create -identity {USER}@users.htcondor.org -authz READ -authz WRITE -lifetime {life_s}"
    return ssh("ce-root", f"CONDOR_CONFIG=/etc/condor-ce/condor_config {create}")


def scitoken(life_s=LIFE_S, **claims):
    """Return a SciToken of the lab's issuer; with a negative life, one that has expired.

    claims: audience, scope, subject, issuer; see tests/lab/images/ce/issuer.py.
    """
    options = [part for name, value in claims.items() for part in (f"--{name}", value)]
    return ssh("ce-root", shlex.join(["lab-scitoken", "--life", str(life_s), *options]))


def place(path, token, alias="cm-alice"):
    """Write a token into a private file, atomically."""
    folder, file, fresh = (shlex.quote(str(name)) for name in (Path(path).parent, path, f"{path}.new"))
    ssh(alias, f"umask 077 && mkdir -p {folder} && cat > {fresh} && mv {fresh} {file}", f"{token}\n")


def use_idtoken():
    """Give alice an IDTOKEN of the CE."""
    place(IDTOKEN_FILE, idtoken())


def use_scitoken(life_s=LIFE_S, **claims):
    """Give alice a SciToken, and remove her IDTOKEN. HTCondor may still have a session with the IDTOKEN."""
    place(SCITOKEN_FILE, scitoken(life_s, **claims))
    ssh("cm-alice", f"rm -f {IDTOKEN_FILE}")


def trust_authority(alias="cm"):
    """Let a host trust the authority of the CE's certificate. SciTokens are sent through TLS only."""
    authority = ssh("ce-root", "cat /etc/ce-lab/ca.crt")
    command = "sudo tee /usr/local/share/ca-certificates/ce-lab.crt && sudo update-ca-certificates"
    ssh(alias, f"{{ {command}; }} >/dev/null 2>&1", f"{authority}\n")


def main():
    """Prepare the access point."""
    kinds = {"idtoken": (use_idtoken, IDTOKEN_FILE), "scitoken": (use_scitoken, SCITOKEN_FILE)}
    kind = sys.argv[1] if len(sys.argv) == 2 else "idtoken"
    if kind not in kinds or len(sys.argv) > 2:
        sys.exit(f"usage: {sys.argv[0]} [{'|'.join(kinds)}]")
    give, path = kinds[kind]
    trust_authority()
    give()
    print(f"cm trusts the authority of the CE, and alice has a token of it: {path}")


if __name__ == "__main__":
    main()
