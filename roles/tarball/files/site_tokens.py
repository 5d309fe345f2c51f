# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep one HTCondor IDTOKEN per site: mint what is missing, renew what ends soon or does not fit, remove the rest.

A token says `glidein-SITE@UID_DOMAIN` and may advertise a master and a startd, nothing else. It goes from
condor_token_create's standard output into a file (0600), and is never shown. Standard library only; Python 3.6.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

SCOPES = ("ADVERTISE_MASTER", "ADVERTISE_STARTD")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

# In the directory of the tokens: for each site the fingerprint of the key that its token was signed with (JSON).
KEYS = ".signing-keys"

# Wanted: what a token has to be. lifetime, renew_before: seconds; key: fingerprint of the pool's signing key;
# revoked: the pool refuses tokens of this identity that were issued until then (epoch seconds; 0: none are).
Wanted = namedtuple("Wanted", "identity issuer lifetime renew_before key revoked")


class TokenError(Exception):
    """Tokens cannot be kept; the text says why, and holds no secret."""


def seconds(text):
    """Seconds from "30d", "12h", "90m", "600s" or "600"; ValueError for anything else."""
    match = re.match(r"^([0-9]+)([smhd]?)$", text)
    if not match:
        raise ValueError("'{0}' is no duration: a number with s, m, h or d behind it, such as 30d".format(text))
    return int(match.group(1)) * UNITS[match.group(2)]


def claims(token):
    """The claims (dict) of a JSON Web Token (RFC 7519), without looking at its signature; ValueError if it is none."""
    parts = token.strip().split(".")
    if len(parts) != 3:
        raise ValueError("not a token")
    payload = parts[1] + "=" * (-len(parts[1]) % 4)
    found = json.loads(base64.urlsafe_b64decode(payload.encode()).decode())
    if not isinstance(found, dict):
        raise ValueError("not a token")
    return found


def why_renew(token, key, wanted, now):
    """Why the stored `token` (text, or None if there is none) has to be replaced; None when it is good.

    `key`: fingerprint of the key that it was signed with, as far as known; `now` in epoch seconds.
    """
    if token is None:
        return "there is none"
    try:
        has = claims(token)
        issued, expires = int(has["iat"]), int(has["exp"])
    except (ValueError, KeyError, TypeError):
        return "the file is no token with an end"
    if has.get("sub") != wanted.identity or has.get("iss") != wanted.issuer:
        return "it is for {0} of {1}".format(has.get("sub"), has.get("iss"))
    if set(str(has.get("scope", "")).split()) != {"condor:/" + scope for scope in SCOPES}:
        return "it allows other things"
    if key != wanted.key:
        return "the signing key is another one"
    if issued <= wanted.revoked:
        return "it was revoked"
    if expires - issued != wanted.lifetime:
        return "it lives {0} s, not {1} s".format(expires - issued, wanted.lifetime)
    if expires - now < wanted.renew_before:
        return "it ends in {0} s".format(expires - now)
    return None


def mint_command(identity, lifetime):
    """The argument list that prints a new token."""
    scopes = [word for scope in SCOPES for word in ("-authz", scope)]
    return ["condor_token_create", "-identity", identity, "-lifetime", str(lifetime)] + scopes


def keep_tokens(directory, sites, wanted_of, mint, now, check=False, only=False):
    """Make `directory` (Path) hold a good token for each of `sites` and, without `only`, nothing else.

    wanted_of(site) gives a Wanted, mint(Wanted) a token. With `check` nothing is written.
    Returns {"changed", "minted": {site: why}, "removed": [names]}.
    """
    minted = {}
    keys = read_keys(directory)
    for site in sorted(sites):
        path, wanted = directory / site, wanted_of(site)
        why = why_renew(path.read_text() if path.exists() else None, keys.get(site), wanted, now)
        if why is None and path.stat().st_mode & 0o777 != 0o600:
            why = "others could read it"
        if why is not None:
            minted[site] = why
            if not check:
                write_atomically(path, (mint(wanted).strip() + "\n").encode())
                keys[site] = wanted.key
                write_atomically(directory / KEYS, json.dumps(keys, sort_keys=True).encode())
    existing = sorted(path.name for path in directory.iterdir() if path.name != KEYS) if directory.exists() else []
    removed = [] if only else [name for name in existing if name not in sites]
    if not check:
        for name in removed:
            (directory / name).unlink()
    return {"changed": bool(minted or removed), "minted": minted, "removed": removed}


def read_revoked(path):
    """{site: until when issued tokens are refused, in epoch seconds} of the state file of the role revocation.

    {} without one; TokenError when it cannot be read.
    """
    try:
        return {site: int(has["before"]) for site, has in json.loads(path.read_text())["sites"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TokenError("{0} cannot be read: {1}".format(path, error)) from error


def read_keys(directory):
    """The fingerprints in KEYS by site; {} when there are none, or none that can be read: all tokens are renewed."""
    try:
        keys = json.loads((directory / KEYS).read_text())
    except (OSError, ValueError):
        return {}
    return keys if isinstance(keys, dict) else {}


def fingerprint(path):
    """What tells one signing key from another, and nothing about it: SHA-256 of its file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_atomically(path, data):
    """Replace `path`, 0600 from its first moment."""
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=".new.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


def run(argv):
    """Standard output of a command; TokenError with command, status and stderr (never stdout) when it fails."""
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, universal_newlines=True, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TokenError("{0}: {1}".format(" ".join(argv), error)) from error
    if done.returncode:
        raise TokenError("{0}: exit status {1}: {2}".format(" ".join(argv), done.returncode, done.stderr.strip()))
    return done.stdout


def mint(wanted):
    """A new token from the pool's signing key; TokenError when what comes back is not what was asked for."""
    token = run(mint_command(wanted.identity, wanted.lifetime)).strip()
    why = why_renew(token, wanted.key, wanted._replace(renew_before=0), int(time.time()))
    if why:
        raise TokenError("condor_token_create for {0} gave a token that is no good: {1}".format(wanted.identity, why))
    return token


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, required=True, help="where the tokens are, one file per site")
    parser.add_argument("--lifetime", type=seconds, required=True, help="of a new token, e.g. 30d")
    parser.add_argument("--renew-before", type=seconds, required=True, help="renew when less than this is left")
    parser.add_argument("--revoked", type=Path, required=True, help="state file of the role revocation")
    parser.add_argument("--only", action="store_true", help="leave the tokens of other sites as they are")
    parser.add_argument("--check", action="store_true", help="write nothing, only say what would change")
    parser.add_argument("sites", nargs="*", metavar="SITE")
    options = parser.parse_args(argv)
    try:
        domain = run(["condor_config_val", "UID_DOMAIN"]).strip()
        issuer = re.split(r"[,\s]+", run(["condor_config_val", "TRUST_DOMAIN"]).strip())[0]
        key = Path(run(["condor_config_val", "SEC_TOKEN_POOL_SIGNING_KEY_FILE"]).strip())
        key_now = fingerprint(key)
        revoked = read_revoked(options.revoked)

        def wanted_of(site):
            identity = "glidein-{0}@{1}".format(site, domain)
            until = revoked.get(site, 0)
            return Wanted(identity, issuer, options.lifetime, options.renew_before, key_now, until)

        now = int(time.time())
        report = keep_tokens(options.directory, options.sites, wanted_of, mint, now, options.check, options.only)
    except (TokenError, OSError) as error:
        print("site_tokens.py: {0}".format(error), file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
