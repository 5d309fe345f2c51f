# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engine of the lab: required packages, the base image, and the flags that podman needs."""

import collections
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

REGISTRY_IMAGE = "docker.io/library/debian:trixie"
MIRROR = os.environ.get("LAB_DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGES = {  # command -> Debian package
    "podman": "podman",
    "runc": "runc",
    "crun": "crun",
    "iptables": "iptables",  # netavark's firewall, only recommended by Debian's podman
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "debootstrap": "debootstrap",
}
NETWORK_PACKAGES = {"/usr/lib/podman/netavark": "netavark", "/usr/lib/podman/aardvark-dns": "aardvark-dns"}
ROOTLESS_PACKAGES = {"newuidmap": "uidmap", "slirp4netns": "slirp4netns"}


class LabError(Exception):
    """The lab cannot continue; the message has the cause and the remedy."""


Result = collections.namedtuple("Result", "ok out err")


def podman(*args, check=True, stdin=None, timeout=600):
    """Run podman; raise LabError with command, exit status and stderr if it fails (unless check is false).

    timeout: in seconds; it only ends a hang.
    """
    command = ["podman", *_runtime_flags(), *args]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),
        )
    except subprocess.TimeoutExpired as error:
        slow = f"`{' '.join(command)}` did not end within {timeout} s"
        if not check:
            return Result(False, "", slow)
        raise LabError(slow) from error
    result = Result(done.returncode == 0, done.stdout.strip(), done.stderr.strip())
    if check and not result.ok:
        raise LabError(f"`{' '.join(command)}` ended with {done.returncode}:\n{result.err or result.out}")
    return result


def preflight(say):
    """Install the required packages as root on Debian or Ubuntu; otherwise raise LabError with the remedy."""
    missing = {package for command, package in PACKAGES.items() if not _found(command)}
    missing |= {package for path, package in NETWORK_PACKAGES.items() if not Path(path).exists()}
    if os.geteuid() != 0:
        missing |= {package for command, package in ROOTLESS_PACKAGES.items() if not _found(command)}
        if _cgroup_version() != 2:
            raise LabError("a rootless lab needs cgroup v2, and this machine has v1: run it as root")
    if missing:
        say(f"installing {', '.join(sorted(missing))}")
        try:
            prepare.apt_install(sorted(missing), f"missing: {', '.join(sorted(missing))}")
        except prepare.MissingError as error:
            raise LabError(str(error)) from error


def registry_answers():
    """Pull the registry's Debian; return whether that succeeded."""
    return podman("pull", "-q", REGISTRY_IMAGE, check=False, timeout=120).ok


def build_base(context, tag, say):
    """Build the base image from the registry's Debian; if no registry responds, with debootstrap."""
    pulled = registry_answers()
    source = REGISTRY_IMAGE if pulled else "localhost/glidein-lab-debootstrap:trixie"
    if not pulled and not podman("image", "exists", source, check=False).ok:
        say("no registry answers: making Debian 13 with debootstrap")
        _debootstrap(source)
    podman("build", "-q", "--isolation=chroot", "--build-arg", f"BASE={source}", "-t", tag, context, timeout=3600)


def run_flags():
    """Return the flags of `podman run` for this machine, whose hard limits may be below podman's defaults."""
    flags = []
    for name, number, usual in (("nofile", resource.RLIMIT_NOFILE, 1048576), ("nproc", resource.RLIMIT_NPROC, 4194304)):
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY and hard < usual:
            # Well below the hard limit, because the engine's helpers may run with a lower limit.
            limit = min(hard, 4096)
            flags += ["--ulimit", f"{name}={limit}:{limit}"]
    return flags


def settings(folder):
    """Return environment variables with which another program's podman works as here; may write a file to `folder`."""
    flags = _runtime_flags()
    if not flags:
        return {}
    path = Path(folder, "containers.conf")
    path.write_text(f'[engine]\nruntime = "{flags[1]}"\n', encoding="utf-8")
    return {"CONTAINERS_CONF": str(path)}


def _debootstrap(tag):
    if os.geteuid() != 0:
        raise LabError(
            f"{REGISTRY_IMAGE} cannot be pulled, and debootstrap needs root: run as root, or `podman pull` it"
        )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", "trixie", str(root), MIRROR]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-5:])
            raise LabError(f"`{' '.join(command)}` ended with {done.returncode}:\n{tail}\n{done.stderr.strip()}")
        archive = Path(folder, "root.tar")
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        podman("import", "-q", str(archive), tag)


def _cgroup_version():
    return 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1


def _runtime_flags():
    """Return the flags for runc on hybrid cgroup v1, which crun refuses ("cgroups in hybrid mode not supported")."""
    return ["--runtime", "runc"] if _cgroup_version() == 1 else []


def _found(command):
    return shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
