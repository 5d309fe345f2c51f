# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use the collection's archive as a new user does: in an empty virtual environment, with a home of Ansible of its own.

Only ansible-core and the archive's requirements.txt are installed there, from the package index. With the argument
`demo`, the demo then runs its playbooks from there, in the lab that is running.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from galaxy_importer import archive

ROOT = Path(__file__).resolve().parents[2]
# No host of the example inventory exists. `status` reads each queue on this machine, and shows why it is unknown.
LOCAL = ["-e", "ansible_connection=local", "-e", "ansible_ssh_args=", "-e", "glidein_demand_url=http://127.0.0.1:1"]


def use(empty):
    """Install the archive in an empty directory, and use it from there; return the environment of its commands.

    Raise CalledProcessError if a command fails.
    """
    home, bin_directory = empty / "home", empty / "venv" / "bin"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    env.update(ANSIBLE_HOME=str(home), LC_ALL="C.UTF-8", PATH=f"{bin_directory}:{os.defpath}")

    def run(program, *arguments, **options):
        print("+", program, *arguments, flush=True)
        command = [str(bin_directory / program), *map(str, arguments)]
        return subprocess.run(command, cwd=empty, env=env, stdin=subprocess.DEVNULL, check=True, text=True, **options)

    subprocess.run([sys.executable, "-m", "venv", str(empty / "venv")], check=True)
    run("pip", "install", "--quiet", f"ansible-core=={version('ansible-core')}")
    run("ansible-galaxy", "collection", "install", archive(), "-p", home / "collections")
    collection = home / "collections" / "ansible_collections" / "glidein" / "ops"
    run("pip", "install", "--quiet", "-r", collection / "requirements.txt")

    modules = [f"glidein.ops.{path.stem}" for path in sorted((collection / "plugins" / "modules").glob("*.py"))]
    run("ansible-doc", "--json", *modules, stdout=subprocess.DEVNULL)
    example = shutil.copytree(collection / "inventories" / "example", empty / "example")
    playbooks = {f"glidein.ops.{path.stem}" for path in (collection / "playbooks").glob("*.yml")}
    # The playbook awx needs another collection; tests/awx runs it.
    run("ansible-playbook", "-i", example, "--syntax-check", *sorted(playbooks - {"glidein.ops.awx"}))
    shown = run("ansible-playbook", "-i", example, "glidein.ops.status", *LOCAL, stdout=subprocess.PIPE).stdout
    print(shown)
    assert "no demand: Demand server http://127.0.0.1:1" in shown, "status does not show why there is no demand"
    assert "PSC-Bridges  RM       node" in shown, "status does not show the entries of the example inventory"
    run("pip", "install", "--quiet", collection / "files" / "demand_server")
    run("glidein-demand", "check", "--config", "/dev/null")
    return dict(env, ANSIBLE_COLLECTIONS_PATH=str(home / "collections"), ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        environment = use(Path(folder))
        if sys.argv[1:] == ["demo"]:
            subprocess.run([sys.executable, str(ROOT / "tests" / "demo.py")], env=environment, check=True)
