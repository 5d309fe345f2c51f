#!/usr/bin/python
# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: file_tree
short_description: Install many files of the controller as one directory
version_added: 0.1.0
description:
  - This is internal and may change in any version.
  - Files that are missing on the target, or that differ in checksum or mode, are sent as one tar archive. A new
    directory gets its name when it is complete. In an existing one, each file is replaced in one step. Other files
    stay.
extends_documentation_fragment: glidein.ops.attributes.diff
options:
  path:
    description: Directory on the target. With O(versioned), the directory that holds the versions.
    type: path
    required: true
  sources:
    description: The files. If two sources have the same destination, the later one is installed.
    type: list
    elements: dict
    required: true
    suboptions:
      src:
        description: File or directory of the controller. Of a directory, its content is installed.
        type: str
      content:
        description: Content of a file, instead of O(sources[].src).
        type: str
      dest:
        description: Path below O(path). The default is the name of a file, or O(path) itself for a directory.
        type: str
      mode:
        description: Mode of these files, four octal digits. With V(keep_executable), it is O(file_mode), and those who
          may read may also execute a file that its owner may execute. The default is O(file_mode).
        type: str
      diff:
        description: Whether diff mode shows the lines of O(sources[].content) that differ. Not for secrets.
        type: bool
        default: false
      checksums:
        description: Of a directory, the files that are installed, with the SHA-256 of each. A file with this content on
          the target need not exist on the controller.
        type: dict
      recurse:
        description: Whether directories below a directory are included.
        type: bool
        default: true
      exclude:
        description: Shell patterns of names of files and directories that are not installed.
        type: list
        elements: str
        default: [".*", __pycache__, "*.pyc"]
  file_mode:
    description: Mode of files, four octal digits.
    type: str
    default: "0600"
  directory_mode:
    description: Mode of the directory and of those below it, four octal digits.
    type: str
    default: "0700"
  directories:
    description: Directories below the directory that exist even if no file is in them.
    type: list
    elements: str
    default: []
  versioned:
    description: Install in a directory of O(path) whose name is a hash of the files, their modes, and O(key).
    type: bool
    default: false
  key:
    description: With O(versioned), text that gives the same files another version.
    type: str
    default: ""
  link:
    description: With O(versioned), name of a symbolic link in O(path) to the version.
    type: str
  sent:
    description: The data that the action plugin sends. Do not set it.
    type: dict
    suboptions:
      version:
        description: Name of the version.
        type: str
      manifest:
        description: SHA-256 and mode of each file.
        type: dict
        default: {}
      shown:
        description: Files whose lines diff mode shows.
        type: list
        elements: str
        default: []
      archive:
        description: File on the target with the missing files.
        type: path
      data:
        description: The content of such a file in Base64, if it is small.
        type: str
"""

EXAMPLES = "\n# See roles/site/tasks/main.yml\n"

RETURN = r"""
path:
  description: The directory with the files on the target, absolute.
  returned: success
  type: str
version:
  description: Name of the version, 12 hexadecimal digits; null without O(versioned).
  returned: success
  type: str
"""

import base64
import io
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import failing
from ansible_collections.glidein.ops.plugins.module_utils.common.file_tree import Tree, link_target, replace_link

SOURCE_SPEC = {
    "src": {"type": "str"},
    "content": {"type": "str"},
    "dest": {"type": "str"},
    "mode": {"type": "str"},
    "diff": {"type": "bool", "default": False},
    "checksums": {"type": "dict"},
    "recurse": {"type": "bool", "default": True},
    "exclude": {"type": "list", "elements": "str", "default": [".*", "__pycache__", "*.pyc"]},
}
ARGUMENT_SPEC = {
    "path": {"type": "path", "required": True},
    "sources": {"type": "list", "elements": "dict", "required": True, "options": SOURCE_SPEC},
    "file_mode": {"type": "str", "default": "0600"},
    "directory_mode": {"type": "str", "default": "0700"},
    "directories": {"type": "list", "elements": "str", "default": []},
    "versioned": {"type": "bool", "default": False},
    "key": {"type": "str", "default": "", "no_log": False},
    "link": {"type": "str"},
}
SENT_SPEC = {
    "version": {"type": "str"},
    "manifest": {"type": "dict", "default": {}},
    "shown": {"type": "list", "elements": "str", "default": []},
    "archive": {"type": "path"},
    "data": {"type": "str", "no_log": True},
}


def install(params, check_mode):
    """Compare, and install unless files have to be sent first; return the result. Raises GlideinError."""
    sent = params["sent"]
    parent, version = os.path.abspath(params["path"]), sent["version"]
    path = os.path.join(parent, version) if version else parent
    tree = Tree(path, sent["manifest"], params["directory_mode"], params["directories"])
    files, diff = tree.changed_files(), tree.diff()
    link = os.path.join(parent, params["link"]) if version and params["link"] else None
    links = bool(link) and link_target(link) != version
    if links:
        diff["before"] += f"{params['link']} -> {link_target(link) or ''}\n"
        diff["after"] += f"{params['link']} -> {version}\n"
    differs = bool(files or tree.changed_directories())
    result = {"changed": differs or links, "path": path, "version": version, "files": files}
    result["diff"] = dict(diff, before_header=path, after_header=path)
    result["before"] = {name: tree.content(name) for name in sent["shown"] if name in files}
    if tree.missing() and not (sent["archive"] or sent["data"]):
        return dict(result, missing=tree.missing())
    if check_mode:
        return result
    if differs:
        _install(tree, sent)
    if links:
        replace_link(link, version)
    return result


def _install(tree, sent):
    """Install with the archive that came as a file or as an argument; without one, nothing is missing."""
    if sent["archive"]:
        with open(sent["archive"], "rb") as handle:
            tree.install(handle)
    else:
        tree.install(io.BytesIO(base64.b64decode(sent["data"] or "")))


def main():
    spec = dict(ARGUMENT_SPEC, sent={"type": "dict", "options": SENT_SPEC})
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failing(module):
        result = install(module.params, module.check_mode)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
