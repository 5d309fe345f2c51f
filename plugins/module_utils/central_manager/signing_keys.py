# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that sign the sites' tokens: the pool's own key (POOL), or a key that the collection has made.

HTCondor accepts tokens of every key in SEC_PASSWORD_DIRECTORY. A token names its key, and HTCondor reads the key's file
at each authentication. So tokens of two keys are valid at the same time, and a key is withdrawn by removing its file.
"""

import contextlib
import json
import os
import re
import secrets
import tempfile
import time

from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import (
    make_private_directory,
    write_atomically,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, clean_environment, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, GlideinError

# Below the directory of the state: {"current": NAME, "previous": NAME or null}.
STATE_FILE = "signing-keys.json"
# HTCondor's name of the key in SEC_TOKEN_POOL_SIGNING_KEY_FILE.
POOL = "POOL"
NO_KEYS = {"current": POOL, "previous": None}
_OWN = re.compile(r"^glidein-ops-\d{8}T\d{6}Z\Z")


def read_keys(directory):
    """Return {"current": name, "previous": name or None} of a state directory. Raises GlideinError."""
    path = os.path.join(directory, STATE_FILE)
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
        keys = {name: found[name] for name in NO_KEYS}
    except FileNotFoundError:
        return dict(NO_KEYS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GlideinError(f"{path} cannot be read ({error!r}). It names the signing key: restore it.") from error
    for name in keys.values():
        if name is not None and name != POOL and not (isinstance(name, str) and _OWN.match(name)):
            raise GlideinError(f"{path}: {name!r} is invalid; expected {POOL} or glidein-ops-DATE. Restore the file.")
    return keys


def key_path(condor, name):
    """Return the path of a signing key's file. Raises CommandError or OutputError."""
    if name == POOL:
        return condor.required_setting("SEC_TOKEN_POOL_SIGNING_KEY_FILE")
    return os.path.join(condor.required_setting("SEC_PASSWORD_DIRECTORY"), name)


def own_keys(condor):
    """Return the names of the key files that this collection has made, sorted. Raises CommandError or OutputError."""
    try:
        names = os.listdir(condor.required_setting("SEC_PASSWORD_DIRECTORY"))
    except FileNotFoundError:
        return []
    return sorted(name for name in names if _OWN.match(name))


def store_command(path):
    """Return the argument list that stores a secret from standard input in a file as HTCondor reads it."""
    return ["condor_store_cred", "add", "-c", "-f", path, "-i", "-"]


def ping_command():
    """Return the argument list that authenticates to the collector as a glidein does."""
    return ["condor_ping", "-type", "collector", "ADVERTISE_STARTD"]


def check_key(mint_token, name):
    """Raise GlideinError if the collector refuses a token of a key.

    mint_token(): a short-lived token of a site, signed with that key.
    """
    with tempfile.TemporaryDirectory(prefix="glidein-key.") as directory:  # 0700
        # With the token in the directory as the only credential.
        settings = {
            "SEC_TOKEN_DIRECTORY": directory,
            "SEC_TOKEN_SYSTEM_DIRECTORY": directory,
            "SEC_CLIENT_AUTHENTICATION_METHODS": "IDTOKENS",
            # Otherwise root's commands make tokens of their own with the pool's keys.
            "SEC_PASSWORD_DIRECTORY": os.path.join(directory, "none"),
            "SEC_TOKEN_POOL_SIGNING_KEY_FILE": os.path.join(directory, "none", POOL),
        }
        environment = clean_environment(os.environ)
        environment.update(("_CONDOR_" + name, value) for name, value in settings.items())
        try:
            write_atomically(os.path.join(directory, "token"), mint_token() + "\n")
            Runner(environment).run(ping_command())
        except CommandError as error:
            said = excerpt(error.stderr) or excerpt(error.stdout) or str(error)
            raise GlideinError(
                f"the running collector refuses a token of the new signing key {name}: {said}. Nothing was changed. Is "
                "the collector running, and is its SEC_PASSWORD_DIRECTORY the one of the configuration files?"
            ) from None


def rotate(directory, condor, check, check_mode=False, now=None):
    """Make a new signing key, and make it the current one; return (keys before, keys after).

    If an earlier rotation is not finished, its new key stays the current one. check(name): raises an error if the
    collector refuses tokens of a key; now: epoch seconds. Raises GlideinError or OSError.
    """
    before = read_keys(directory)
    if before["previous"] is not None:
        return before, before
    name = time.strftime("glidein-ops-%Y%m%dT%H%M%SZ", time.gmtime(now))
    after = {"current": name, "previous": before["current"]}
    if check_mode:
        return before, after
    path = key_path(condor, name)
    condor.run(store_command(path), secrets.token_urlsafe(36))
    try:
        os.chmod(path, 0o600)
        check(name)
    except BaseException:
        os.unlink(path)
        raise
    make_private_directory(directory)
    _write(directory, after)
    return before, after


def finish(directory, condor, check_mode=False, everything=False):
    """Remove all keys of the collection but the current one; return (keys before, keys after, names of removed keys).

    everything: whether the current one and the state are removed, too. The pool's own key is never removed. Raises
    GlideinError or OSError.
    """
    before = read_keys(directory)
    after = dict(NO_KEYS) if everything else dict(before, previous=None)
    removed = [name for name in own_keys(condor) if name != after["current"]]
    if not check_mode:
        for name in removed:
            os.unlink(key_path(condor, name))
        if everything:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, STATE_FILE))
        elif after != before:
            _write(directory, after)
    return before, after, removed


def _write(directory, keys):
    write_atomically(os.path.join(directory, STATE_FILE), json.dumps(keys, sort_keys=True) + "\n")
