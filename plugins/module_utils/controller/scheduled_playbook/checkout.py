# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a scheduled playbook as a checkout of a git repository, updated before each run.

A commit is exported to a directory of its own, which gets its name when it is complete. `current` then points to it.
So a run has all files of one commit, also if an update was interrupted.
"""

import os
import shutil
import time

from ansible_collections.glidein.ops.plugins.module_utils.atomic_files import write_atomically
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.file_tree import link_target, replace_link

_TIMEOUT_S = 120
_NEW = "new"
# The repository's own settings. The address is in no command line, since it may contain a password.
_CONFIG = """\
[core]
    repositoryformatversion = 0
    bare = false
[remote "origin"]
    url = "{url}"
    fetch = +refs/heads/*:refs/heads/*
    fetch = +refs/tags/*:refs/tags/*
"""


class Checkout:
    """The checkouts of one scheduled playbook. Its caller holds that playbook's lock."""

    def __init__(self, directory, repository, environment):
        """directory: for the repository and its checkouts; repository: the setting; environment: of git."""
        self._git_dir = os.path.join(directory, "repository.git")
        self._checkouts = os.path.join(directory, "inventory")
        self._current = os.path.join(self._checkouts, "current")
        self._updated = os.path.join(directory, "inventory_updated")
        self._repository = repository
        self._environment = environment

    def update(self):
        """Fetch and export the version. Raises GlideinError or OSError; the last checkout then stays as it is."""
        url, version = self._repository["url"], self._repository["version"]
        if version.startswith("-") or any(character in url for character in '\n"\\'):
            # The address may contain a password.
            raise InputError(
                "controller_inventory_repository must not contain a line break, a quotation mark or a backslash, and "
                "controller_inventory_version must not begin with '-'"
            )
        self._git(None, "init", "--quiet")
        write_atomically(os.path.join(self._git_dir, "config"), _CONFIG.format(url=url))
        self._remove_stale_locks()
        self._git(None, "fetch", "--quiet", "--prune", "--force", "--no-tags", "--update-head-ok", "origin")
        commit = self._git(None, "rev-parse", "--verify", "--quiet", version + "^{commit}").strip()
        if not os.path.isdir(os.path.join(self._checkouts, commit)):
            self._export(commit)
        if not os.path.isdir(os.path.join(self._checkouts, commit, self._repository["directory"])):
            raise InputError(
                f"controller_inventory_directory: {self._repository['directory']!r} is not a directory of commit "
                f"{commit} of the repository"
            )
        # First: what `current` points to always has a time.
        write_atomically(self._updated, commit + "\n")
        replace_link(self._current, commit)
        self._remove_others(commit)

    def last(self):
        """Return (directory, commit, seconds since the update) of the last complete inventory, or None."""
        commit = link_target(self._current)
        if commit is None:
            return None
        path = os.path.normpath(os.path.join(self._checkouts, commit, self._repository["directory"]))
        if not os.path.isdir(path):  # controller_inventory_directory has changed since
            return None
        return path, commit, time.time() - os.stat(self._updated).st_mtime

    def _export(self, commit):
        """Write the files of a commit."""
        fresh = os.path.join(self._checkouts, _NEW)
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh)
        try:
            self._git(fresh, "read-tree", commit)
            self._git(fresh, "checkout-index", "--all", "--force")
            # The files must not be empty after a power failure.
            os.sync()
            os.rename(fresh, os.path.join(self._checkouts, commit))
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _git(self, work_tree, *arguments):
        environment = dict(
            self._environment,
            GIT_DIR=self._git_dir,
            GIT_TERMINAL_PROMPT="0",
            GIT_SSH_COMMAND="ssh -o BatchMode=yes -o ConnectTimeout=20",
            GIT_INDEX_FILE=os.path.join(self._git_dir, "index"),
        )
        if work_tree:
            environment["GIT_WORK_TREE"] = work_tree
        return Runner(environment, _TIMEOUT_S).run(["git", *arguments])

    def _remove_stale_locks(self):
        """Remove the lock files of a git that was killed. No other git uses this repository."""
        for folder, _folders, names in os.walk(self._git_dir):
            for name in names:
                if name.endswith(".lock"):
                    os.unlink(os.path.join(folder, name))

    def _remove_others(self, commit):
        for name in os.listdir(self._checkouts):
            if name not in (commit, os.path.basename(self._current)):
                shutil.rmtree(os.path.join(self._checkouts, name), ignore_errors=True)


def updated(checkout, max_age_s):
    """Update a checkout; return (directory, commit, error). Without a usable checkout, the directory is None.

    If the update fails, the last inventory is used until its last update is older than max_age_s.
    """
    error = None
    try:
        checkout.update()
    except (GlideinError, OSError) as failure:
        error = f"the inventory was not updated: {failure}"
    last = checkout.last()
    if last is None:
        return None, None, error
    directory, commit, age_s = last
    if error and age_s > max_age_s:
        return None, commit, f"{error} Its last update is {int(age_s)} s ago; at most {max_age_s} s are allowed."
    return directory, commit, error
