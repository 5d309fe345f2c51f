# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import the collection's archive as Ansible Galaxy does it; a warning of galaxy-importer is a failure.

The importer's ansible-lint and ansible-test are off: the parts `ansible-lint` and `ansible-test-sanity` run them with
stricter rules. The check also compares the archive's top level with the list below, so that build_ignore of galaxy.yml
leaves out neither more nor less.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

TOP_LEVEL = {
    *(
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "FILES.json",
        "LICENSE",
        "LICENSES",
        "MANIFEST.json",
        "README.md",
        "REUSE.toml",
        "bindep.txt",
        "requirements.txt",
    ),
    *("changelogs", "docs", "files", "inventories", "meta", "playbooks", "plugins", "roles"),
}
CONFIGURATION = """\
[galaxy-importer]
ansible_local_tmp = {directory}/tmp
run_ansible_doc = true
run_ansible_lint = false
run_ansible_test = false
check_changelog = true
"""
# Content of these kinds is what Galaxy lists; an importer that loads none of it has not read the collection.
LISTED = {"module", "role", "playbook", "filter", "lookup", "inventory"}


def archive():
    """Return the path of the archive that tests/prepare.py has built."""
    (path,) = (prepare.BUILD / "dist").glob("glidein-ops-*.tar.gz")
    return path


def top_level_problems(path):
    """Return the differences between the archive's top level and TOP_LEVEL."""
    with tarfile.open(path) as tar:
        found = {name.split("/")[0] for name in tar.getnames()}
    return [f"{name}: in the archive, not in TOP_LEVEL of {__file__}" for name in sorted(found - TOP_LEVEL)] + [
        f"{name}: not in the archive; see build_ignore in galaxy.yml" for name in sorted(TOP_LEVEL - found)
    ]


def import_archive(path, directory):
    """Run galaxy-importer in a directory, show its output, and return the problems."""
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "galaxy-importer.cfg"
    configuration.write_text(CONFIGURATION.format(directory=directory))
    result = directory / "importer_result.json"
    result.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "galaxy_importer.main", str(path)],
        cwd=directory,
        env=dict(os.environ, GALAXY_IMPORTER_CONFIG=str(configuration)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, end="", flush=True)
    problems = [line for line in done.stdout.splitlines() if re.match(r"(WARNING|ERROR|CRITICAL)\b", line)]
    if done.returncode or not result.is_file():
        return [*problems, f"galaxy-importer ended with {done.returncode}"]
    kinds = {content["content_type"] for content in json.loads(result.read_text())["contents"]}
    return problems + [f"galaxy-importer found no {kind}" for kind in sorted(LISTED - kinds)]


def main():
    """Check the archive; return 1 with the problems, if any."""
    path = archive()
    problems = top_level_problems(path) + import_archive(path, prepare.BUILD / "galaxy-importer")
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
