#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: tarball
short_description: Build the tarballs of glideins or gateways
version_added: 0.1.0
description:
  - Builds one tarball for each platform, with what a glidein needs of HTCondor, and the lists by which a glidein
    chooses the one that fits its node. The role P(glidein.ops.tarball#role) describes the content and the files.
  - With O(kind=gateway), a tarball has instead a schedd and blahp, for a login node. C(docs/gateway.md) describes how
    they differ from HTCondor's.
  - Tarballs of platforms that are no longer in O(sources) are removed. Files that the module did not make stay.
  - Runs on the pool's central manager, as root. With tarballs of C(upstream) only, it runs on any host, such as the
    controller, as an ordinary user.
extends_documentation_fragment:
  - glidein.ops.attributes.diff
attributes:
  check_mode:
    details: Builds in memory and writes nothing. If HTCondor, an upstream tarball, or the pool password is missing, the
      module reports a change and RV(reason).
  diff_mode:
    details: Lists the tarballs that are new, differ, or are removed.
options:
  kind:
    description: The content of the tarballs. Each kind needs a O(directory) of its own.
    type: str
    choices: [glidein, gateway]
    default: glidein
  directory:
    description: Directory of the results, made with mode 0700.
    type: path
    required: true
  sources:
    description:
      - The platforms, by name. Each is a mapping with C(source), C(upstream) and C(sha256).
      - C(source) is V(installed) for the HTCondor that is installed on this host, or V(upstream) for a tarball of the
        HTCondor project or of this module. C(upstream) is that tarball, as a URL or as a path on this host. C(sha256)
        is its SHA-256.
      - A tarball with a URL is expected in C(upstream/SHA256.tar.gz) below O(directory). The module does not download.
    type: dict
    required: true
  pool_password_file:
    description: File with the pool password, with which a second tarball is built for each platform. The default is the
      C(etc/pool_password) of an C(upstream) tarball, if it has one.
    type: path
  publish_directory:
    description: Directory, readable by all users, for copies of the tarballs without a password. The name of a copy
      contains the first digits of its SHA-256. Older copies stay.
    type: path
"""

EXAMPLES = r"""
- name: Build the tarballs
  glidein.ops.tarball:
    directory: /var/lib/glidein-ops
    sources:
      native: {source: installed}
      el8:
        source: upstream
        upstream: /srv/condor-23.0.20-x86_64_AlmaLinux8-stripped.tar.gz
        sha256: 0c1b7f3e5d2a49860c1b7f3e5d2a49860c1b7f3e5d2a49860c1b7f3e5d2a4986
  become: true
"""

RETURN = r"""
platforms:
  description: The platforms that have a tarball. C(htcondor) is the version of HTCondor, C(platform) the one that it
    was built for, C(arch) the architecture as C(uname -m) prints it, C(glibc) the least version that a node needs, and
    C(sha256) that of the tarball without a password.
  returned: success
  type: list
  elements: dict
  sample:
    - name: native
      htcondor: 23.9.6
      platform: X86_64-Debian_13
      arch: x86_64
      glibc: "2.38"
      sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
built:
  description: Names of the tarballs that were built, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [native.tar.gz]
published:
  description: Names of the copies that were added to O(publish_directory), or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [native-2c26b46b68ff.tar.gz]
reason:
  description: In check mode, why nothing can be built yet; otherwise empty.
  returned: success
  type: str
"""

import contextlib
import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.condor import Condor
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.gateway_files import (
    installed_gateway_items,
    unrepaired,
    upstream_gateway_items,
)
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.htcondor_files import (
    installed_items,
    unpacked_archive,
    upstream_items,
)
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.tarballs import (
    PASSWORD_MEMBER,
    TarballDirectory,
    archives_of,
    file_sha256,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.atomic_files import (
    make_private_directory,
    read_or_none,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandError, InputError, failing

# A JSON Web Token, such as HTCondor's IDTOKENs. A pool password's file never has this form.
_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+\s*\Z")


def items_of(kind, root, condor):
    """Return {destination: Item} of an unpacked upstream tarball (Path); of the installed HTCondor if root is None."""
    if kind == "gateway":
        return upstream_gateway_items(root) if root else installed_gateway_items(condor)
    return upstream_items(root) if root else installed_items(condor)


def missing_inputs(params, archives, condor):
    """Return the errors about inputs that are not on this host. Raises InputError for an archive with another sum."""
    problems = []
    if None in archives.values():
        try:
            condor.setting("UID_DOMAIN")
        except CommandError as error:
            problems.append(str(error))
    for name, archive in archives.items():
        found = file_sha256(archive[0]) if archive else None
        if archive and found is None:
            problems.append(f"sources.{name}: {archive[0]} is missing on this host")
        elif archive and found != archive[1]:
            raise InputError(f"sources.{name}: {archive[0]} has the SHA-256 {found}; expected {archive[1]}")
    path = params["pool_password_file"]
    if path and not os.path.exists(path):
        problems.append(
            f"pool_password_file={path} is missing on this host. The role glidein.ops.central_manager makes it."
        )
    return problems


def pool_password(path, roots):
    """Return the content (bytes) of the pool password's file, of the first unpacked tarball that has one, or None.

    path: the file, or None; roots: the directories of unpacked tarballs, None for the installed HTCondor.
    Raises InputError.
    """
    paths = [path] if path else [str(root / PASSWORD_MEMBER) for root in roots if root]
    content = next((text for text in map(read_or_none, paths) if text is not None), None)
    if content is not None and content.startswith(b"$ANSIBLE_VAULT"):
        raise InputError(f"the pool password {path or PASSWORD_MEMBER} is encrypted by Ansible Vault: decrypt it")
    if content is not None and _TOKEN.match(content):
        raise InputError(
            f"the pool password {path or PASSWORD_MEMBER} is a token: for a token, set glidein_credential=token"
        )
    return content


def build(params, check_mode, condor):
    """Build what has changed; return the result. Raises GlideinError or OSError."""
    archives = archives_of(params["sources"], params["directory"])
    problems = missing_inputs(params, archives, condor)
    if problems and not check_mode:
        raise InputError(problems)
    if problems:
        return {"changed": True, "platforms": [], "built": [], "published": [], "reason": "; ".join(problems)}
    with contextlib.ExitStack() as stack:
        roots = {
            name: stack.enter_context(unpacked_archive(archive[0])) if archive else None
            for name, archive in archives.items()
        }
        sources = {name: items_of(params["kind"], root, condor) for name, root in roots.items()}
        is_gateway = params["kind"] == "gateway"
        password = None if is_gateway else pool_password(params["pool_password_file"], roots.values())
        results = TarballDirectory(params["directory"], sources, password)
    changed = make_private_directory(params["directory"], check_mode) or results.changed
    diff = dict(results.diff(), before_header=params["directory"], after_header=params["directory"])
    if not check_mode:
        results.write()
    published = results.publish(params["publish_directory"], check_mode) if params["publish_directory"] else []
    return {
        "warnings": [f"sources.{name}: {text}" for name, items in sources.items() for text in unrepaired(items)],
        "changed": changed or bool(published),
        "platforms": results.platforms,
        "built": results.rebuilt,
        "published": [name for name in published if name],
        "reason": "",
        "diff": diff,
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["glidein", "gateway"], "default": "glidein"},
            "directory": {"type": "path", "required": True},
            "sources": {"type": "dict", "required": True},
            "pool_password_file": {"type": "path", "no_log": False},
            "publish_directory": {"type": "path"},
        },
        supports_check_mode=True,
    )
    with failing(module, "The tarballs cannot be built: "):
        result = build(module.params, module.check_mode, Condor())
        for text in result.pop("warnings", []):
            module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
