# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment: its image, built by ansible-builder, and playbooks in it, run by ansible-runner as in AWX.

    execution_environment.py build               build the image if its content has changed
    execution_environment.py run PLAYBOOK...     run glidein.ops.PLAYBOOK on the lab; further arguments are options

The base image is that of meta/execution-environment.yml. If no registry responds, or if this machine trusts certificate
authorities of its own, it is the lab's base image. The environment variable EE_BASE_IMAGE names another one.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import prepare

sys.path.insert(0, str(Path(__file__).resolve().parent / "lab"))

from engine import LabError, podman, preflight, registry_answers, run_flags, settings  # noqa: E402
from lab import EXECUTION_ENVIRONMENT, Lab, say, trusted_authorities  # noqa: E402

DEFINITION = prepare.COLLECTION / "meta" / "execution-environment.yml"
PLACE = prepare.BUILD / "execution-environment"
INVENTORY = prepare.ROOT / "inventories" / "lab"


def the_lab():
    """Return the lab that the environment variables LAB and LAB_IMAGES name."""
    return Lab(os.environ.get("LAB") or "glidein-lab", os.environ.get("LAB_IMAGES"))


def image(lab):
    """Return the name of the image: its tag is the hash of what it is made from."""
    names = [*prepare.collection_sources(), "tests/requirements.txt", "tests/execution_environment.py"]
    return f"{lab.image(EXECUTION_ENVIRONMENT)}:{prepare.digest(names, os.environ.get('EE_BASE_IMAGE') or '')[:12]}"


def base_image(lab):
    """Return the name of the base image; None for that of the definition."""
    named = os.environ.get("EE_BASE_IMAGE")
    if named:
        return named
    if not trusted_authorities() and registry_answers():
        return None
    say("using the lab's base image")
    with lab.locked():
        return lab.base()


def build(lab):
    """Build the image with ansible-builder, unless it exists."""
    preflight(say)
    tag = image(lab)
    with prepare.lock("execution-environment"):
        if podman("image", "exists", tag, check=False).ok:
            say(f"{tag} is up to date")
            return
        base = base_image(lab)
        # Only the layers of the base stage are cached: the collection is part of what follows.
        command = [
            *(str(prepare.VENV / "bin" / "ansible-builder"), "build", "--verbosity", "2"),
            *("--file", str(DEFINITION), "--context", str(PLACE / "context"), "--tag", tag),
            *("--container-runtime", "podman", "--extra-build-cli-args=--isolation=chroot"),
            *([f"--build-arg=EE_BASE_IMAGE={base}"] if base else []),
        ]
        shutil.rmtree(PLACE / "context", ignore_errors=True)
        PLACE.mkdir(parents=True, exist_ok=True)
        say(f"building {tag}")
        subprocess.run(command, check=True, cwd=PLACE, env=prepare.environment(), stdin=subprocess.DEVNULL)
    say(f"{tag} is built")


def exported(inventory, part=(1, 1)):
    """Return inventories as a job of AWX gets them: with unevaluated variables, and with the hosts of one slice.

    part: number of the slice, and of all slices. AWX deals the hosts, sorted by name, to the slices in turn.
    """
    sources = [item for path in inventory for item in ("-i", str(path))]
    command = [str(prepare.VENV / "bin" / "ansible-inventory"), *sources, "--list", "--export"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=prepare.environment())
    data = json.loads(done.stdout)
    variables = data["_meta"]["hostvars"]
    names = {name for group in data.values() for name in group.get("hosts", ())} | set(variables)
    number, count = part
    kept = sorted(names)[number - 1 :: count]
    data["_meta"]["hostvars"] = {name: variables.get(name, {}) for name in kept}
    for group in data.values():
        if "hosts" in group:
            group["hosts"] = [name for name in group["hosts"] if name in kept]
    return json.dumps(data)


def project(folder, playbooks, hosts, extra_vars):
    """Write the private data directory of ansible-runner as AWX does.

    playbooks: names in glidein.ops, which the project's playbook `job.yml` imports; hosts: the inventory as JSON.
    """
    for name in ("project", "inventory", "env"):
        (folder / name).mkdir(parents=True)
    imports = [{"name": name, "import_playbook": f"glidein.ops.{name}"} for name in playbooks]
    (folder / "project" / "job.yml").write_text(json.dumps(imports), encoding="utf-8")
    (folder / "project" / "ansible.cfg").write_text("[defaults]\ncallback_result_format = yaml\n", encoding="utf-8")
    (folder / "env" / "extravars").write_text(json.dumps(extra_vars), encoding="utf-8")
    script = folder / "inventory" / "hosts"
    script.write_text(f"#!/usr/bin/env python3\nprint({hosts!r})\n", encoding="utf-8")
    script.chmod(0o700)


def runner_command(lab, folder, arguments=(), mounts=()):
    """Return the command of ansible-runner that runs `job.yml`; mounts: directories with the same path inside."""
    # AWX sets --user=root, too. The addresses of the lab's hosts are those of this machine.
    options = ["--user=root", "--network=host", *run_flags()]
    return [
        *(str(prepare.VENV / "bin" / "ansible-runner"), "run", str(folder), "--playbook", "job.yml"),
        *("--process-isolation", "--process-isolation-executable", "podman", "--container-image", image(lab)),
        *(f"--container-option={option}" for option in options),
        *(f"--container-volume-mount={path}:{path}" for path in (lab.state, *mounts)),
        *([f"--cmdline={' '.join(arguments)}"] if arguments else []),
    ]


def run(lab, playbooks, arguments=(), inventory=(INVENTORY,), part=(1, 1), folder=None, mounts=(), **options):
    """Run playbooks of the collection on the lab, in the image, as one job; return the finished process."""
    folder = folder or PLACE / "job"
    shutil.rmtree(folder, ignore_errors=True)
    # In AWX, inventory_dir, from which the lab's inventory finds .lab, is a directory of the job.
    project(folder, playbooks, exported(inventory, part), {"lab_state": str(lab.state)})
    return subprocess.run(
        runner_command(lab, folder, arguments, mounts),
        env={**prepare.environment(), **settings(folder)},
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=900,
        **options,
    )


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("playbook", nargs="?")
    options, arguments = parser.parse_known_args()
    try:
        if options.action == "build":
            build(the_lab())
        elif options.playbook is None:
            parser.error("name a playbook of the collection")
        else:
            sys.exit(run(the_lab(), [options.playbook], arguments).returncode)
    except LabError as error:
        sys.exit(f"error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: exit status {error.returncode} from: {' '.join(map(str, error.cmd))}")


if __name__ == "__main__":
    main()
