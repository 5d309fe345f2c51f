# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTCondor IDTOKEN for each site: when it is minted again, and how it is stored.

A token of a glidein has the identity glidein-SITE@UID_DOMAIN and may advertise a master and a startd, nothing else.
One of a gateway has the identity gateway-SITE@UID_DOMAIN. It may advertise a master and a schedd, and read.
"""

import hashlib
import json
import os
import stat
from collections import namedtuple

from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import words
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.signing_keys import POOL, key_path
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import (
    make_private_directory,
    write_atomically,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import claims

# Kind of daemons -> the scopes of their tokens. The kind is also the prefix of the identity.
SCOPES = {
    "glidein": ("ADVERTISE_MASTER", "ADVERTISE_STARTD"),
    "gateway": ("ADVERTISE_MASTER", "ADVERTISE_SCHEDD", "READ"),
}

# In the directory of the tokens: for each site the fingerprint of the key that its token was signed with (JSON).
KEYS = ".signing-keys"

# The requirements of a token. lifetime, renew_before: seconds; key: fingerprint of the pool's signing key;
# revoked: the pool refuses tokens of this identity that were issued until then (epoch seconds; 0: none);
# kind: of SCOPES.
Wanted = namedtuple("Wanted", "identity issuer lifetime renew_before key revoked kind")


class TokenError(GlideinError):
    """A token cannot be minted; the text holds no secret."""


def renewal_reason(token, key, wanted, now):
    """Return why a stored token must be replaced, or None if it is valid.

    token: text, or None if it is missing; key: fingerprint of the key that it was signed with, None if unknown;
    now: epoch seconds.
    """
    if token is None:
        return "no token"
    try:
        found = claims(token)
        issued, expires = int(found["iat"]), int(found["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "the file has no token that expires"
    if found.get("sub") != wanted.identity or found.get("iss") != wanted.issuer:
        return f"it is for {found.get('sub')} of {found.get('iss')}"
    if set(str(found.get("scope", "")).split()) != {f"condor:/{scope}" for scope in SCOPES[wanted.kind]}:
        return "it has other scopes"
    if key != wanted.key:
        return "the signing key has changed"
    if issued <= wanted.revoked:
        return "it was revoked"
    if expires - issued != wanted.lifetime:
        return f"its lifetime is {expires - issued} s, not {wanted.lifetime} s"
    if expires - now < wanted.renew_before:
        return f"it expires in {expires - now} s" if expires > now else "it has expired"
    return None


def mint_command(identity, lifetime, key_name=POOL, kind="glidein"):
    """Return the argument list that prints a new token.

    lifetime: seconds; key_name: HTCondor's name of the key; kind: of SCOPES.
    """
    scopes = [word for scope in SCOPES[kind] for word in ("-authz", scope)]
    key = [] if key_name == POOL else ["-key", key_name]
    return ["condor_token_create", "-identity", identity, "-lifetime", str(lifetime)] + scopes + key


class Mint:
    """Mints tokens with a signing key."""

    def __init__(self, condor, clock, key_name=POOL, kind="glidein"):
        """condor: Condor; clock(): epoch seconds; key_name: HTCondor's name of the key; kind: of SCOPES."""
        self._condor = condor
        self._clock = clock
        self._key_name = key_name
        self._kind = kind
        self.domain = condor.required_setting("UID_DOMAIN")
        self.issuer = words(condor.required_setting("TRUST_DOMAIN"))[0]
        self.key = fingerprint(key_path(condor, key_name), key_name)

    def wanted(self, site, lifetime, renew_before, revoked):
        """Return the Wanted of a site's token."""
        name = f"{self._kind}-{site}@{self.domain}"
        return Wanted(name, self.issuer, lifetime, renew_before, self.key, revoked, self._kind)

    def __call__(self, wanted):
        """Return a new token (text). Raises TokenError if the command fails or prints an invalid token."""
        argv = mint_command(wanted.identity, wanted.lifetime, self._key_name, wanted.kind)
        try:
            token = self._condor.run(argv).strip()
        except CommandError as error:
            # Without the error's details: standard output may have a token.
            message = excerpt(error.stderr) or "no message"
            raise TokenError(f"{' '.join(argv)} failed with exit status {error.rc}: {message}") from None
        reason = renewal_reason(token, wanted.key, wanted._replace(renew_before=0), int(self._clock()))
        if reason:
            raise TokenError(f"condor_token_create printed an invalid token for {wanted.identity}: {reason}.")
        return token


def fingerprint(path, key_name=POOL):
    """Return the SHA-256 of a signing key's file, in hexadecimal digits. Raises TokenError."""
    try:
        with open(path, "rb") as handle:
            return hashlib.sha256(handle.read()).hexdigest()
    except OSError as error:
        if key_name != POOL:
            raise TokenError(
                f"the signing key {path} cannot be read: {error.strerror}. The playbook glidein.ops.rotate made it. "
                "Restore it, or remove signing-keys.json in the directory of the tokens' state and run "
                "glidein.ops.deploy. All sites then get tokens of the pool's own key."
            ) from error
        raise TokenError(
            f"SEC_TOKEN_POOL_SIGNING_KEY_FILE={path} cannot be read: {error.strerror}. The role "
            "glidein.ops.central_manager makes it."
        ) from error


class TokenStore:
    """The directory with one token for each site."""

    def __init__(self, directory):
        self.directory = directory
        self._keys = self._read_keys()

    def _read_keys(self):
        """Return {site: fingerprint}; {} if they cannot be read, so that all tokens are renewed."""
        try:
            with open(self._path(KEYS), encoding="utf-8") as handle:
                keys = json.load(handle)
        except (OSError, ValueError):
            return {}
        return keys if isinstance(keys, dict) else {}

    def _path(self, site):
        return os.path.join(self.directory, site)

    def sites(self):
        """Return the sites that have a token, sorted."""
        try:
            return sorted(name for name in os.listdir(self.directory) if is_name(name))
        except FileNotFoundError:
            return []

    def renewal_reason(self, site, wanted, now):
        """Return why a site's token must be replaced, or None. See the function of this name."""
        path = self._path(site)
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                token, mode = handle.read(), stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
        except FileNotFoundError:
            token, mode = None, None
        reason = renewal_reason(token, self._keys.get(site), wanted, now)
        if reason is None and mode != 0o600:
            return "other users could read it"
        return reason

    def issued(self, site):
        """Return the time of issue of a site's token in epoch seconds; None without a valid token."""
        try:
            with open(self._path(site), encoding="utf-8", errors="replace") as handle:
                return int(claims(handle.read())["iat"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def write(self, site, token, key):
        """Store a token and the fingerprint of its signing key."""
        write_atomically(self._path(site), token.strip() + "\n")
        self._keys[site] = key
        write_atomically(self._path(KEYS), json.dumps(self._keys, sort_keys=True))

    def remove(self, site):
        """Remove a site's token."""
        os.unlink(self._path(site))


def update_tokens(store, wanted, mint, now, purge, check_mode=False, replace=False):
    """Mint the missing and invalid tokens of a TokenStore. With `purge`, remove the tokens of other sites.

    wanted: {site: Wanted}; mint(Wanted): a token; replace: whether valid tokens are replaced, too. Returns {"changed",
    "minted": {site: reason}, "removed": [sites], "issued": {site: epoch seconds, or None without a valid token}}.
    """
    changed = make_private_directory(store.directory, check_mode)
    rotated = "all tokens are replaced" if replace else None
    reasons = {site: store.renewal_reason(site, wanted[site], now) or rotated for site in sorted(wanted)}
    minted = {site: reason for site, reason in reasons.items() if reason}
    removed = [site for site in store.sites() if site not in wanted] if purge else []
    if not check_mode:
        for site in minted:
            store.write(site, mint(wanted[site]), wanted[site].key)
        for site in removed:
            store.remove(site)
    return {
        "changed": changed or bool(minted or removed),
        "minted": minted,
        "removed": removed,
        "issued": {site: store.issued(site) for site in sorted(wanted)},
    }


def diff(report):
    """Return {"before", "after"} of what update_tokens returned: a line for each token, without the token itself."""
    lines = {"before": [], "after": []}
    for site, reason in report["minted"].items():
        if reason != "no token":
            lines["before"].append(f"{site}: {reason}\n")
        lines["after"].append(f"{site}: new token\n")
    lines["before"] += [f"{site}: token of a site that no longer needs one\n" for site in report["removed"]]
    return {name: "".join(text) for name, text in lines.items()}
