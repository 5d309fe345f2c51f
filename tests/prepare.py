# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare the tests and the demo: create .venv, and install the collection as a user would.

It needs only Python's standard library. A step whose inputs did not change does nothing.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BUILD = ROOT / ".build"
COLLECTIONS = BUILD / "collections"
COLLECTION = COLLECTIONS / "ansible_collections" / "glidein" / "ops"
# awx.awx, which only the playbook awx needs. PyPI has it within the package `ansible`.
AWX_COLLECTIONS = BUILD / "awx"
AWX_PACKAGE = "ansible==12.3.0"
PROMETHEUS = BUILD / "prometheus" / "usr" / "bin"

OLDEST_PYTHON = (3, 11)
# Versions that tests look for on this machine.
PYTHONS = [f"3.{minor}" for minor in range(6, 15)]
# What galaxy.yml's build_ignore leaves out: changes there need no new build.
NOT_IN_COLLECTION = ("tests", "extensions", ".ci", ".github")


class MissingError(Exception):
    """A missing prerequisite; the message is one line with its name and how to install it."""


def environment(base=None):
    """Return the environment of every command: the user's, without variables that change Ansible's behaviour.

    The user's ANSIBLE_* and MOLECULE_* variables, PYTHONPATH and version managers' shims are removed; .venv comes first
    in PATH; collections come from .build/collections only.
    """
    env = {
        name: value
        for name, value in (os.environ if base is None else base).items()
        if not name.startswith(("ANSIBLE_", "MOLECULE_"))
        and name not in ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
    }
    path = [part for part in env.get("PATH", os.defpath).split(os.pathsep) if Path(part).name != "shims"]
    own = str(VENV / "bin")
    env.update(
        ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS),
        ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
        ANSIBLE_HOME=str(BUILD / "ansible"),
        LAB=env.get("LAB") or "glidein-lab",
        LC_ALL="C.UTF-8",  # Ansible refuses to start in a locale that is not UTF-8
        PATH=os.pathsep.join([own, *(part for part in path if part != own)]),
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        VIRTUAL_ENV=str(VENV),
    )
    return env


def sources():
    """Return paths, relative to the checkout, of the project's files: tracked and new ones, without ignored ones."""
    # safe.directory: a checkout that another user owns (a CI volume, say) is still only read.
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    except FileNotFoundError:
        raise MissingError("git is missing: apt-get install git") from None
    except subprocess.CalledProcessError as error:
        reason = os.fsdecode(error.stderr).strip()
        raise MissingError(f"{ROOT} is not a git checkout ({reason}): get it with git clone") from None
    names = sorted(set(os.fsdecode(listing).split("\0")) - {""})
    return [name for name in names if (ROOT / name).is_file()]  # deleted, yet tracked: not there any more


def digest(names, *extra):
    """Return the SHA-256 over names, modes and contents of files, and over further strings."""
    total = hashlib.sha256("\0".join(extra).encode())
    for name in names:
        path = ROOT / name
        total.update(f"\0{name}\0{path.stat().st_mode & 0o111:o}\0".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def copy(names, target):
    """Copy files of the checkout into a directory, with their paths."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


def up_to_date(stamp, key):
    """Return whether the stamp file has this key."""
    return stamp.is_file() and stamp.read_text() == key


@contextlib.contextmanager
def lock(name):
    """Hold a lock of the checkout, so that two runs of make do not overwrite each other's results."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def ensure_venv_module():
    """Install Debian's python3-venv if this Python cannot make virtual environments.

    Raise MissingError if it cannot be installed.
    """
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise MissingError(
            f"Python >= {wanted} is needed, {sys.executable} is {found}: make PYTHON=/path/to/python{wanted}"
        )
    if importlib.util.find_spec("ensurepip") is not None:
        return
    apt_install("python3-venv", f"python3-venv is missing for {sys.executable} ({found})")


def ensure_busybox():
    """Install Debian's busybox if it is missing: its shell is one of those on compute nodes.

    Raise MissingError if it cannot be installed.
    """
    if shutil.which("busybox") is None:
        apt_install("busybox", "busybox is missing")


def ensure_nginx():
    """Install Debian's nginx if it is missing, without starting it. Without nginx, some tests of the server skip."""
    if shutil.which("nginx") is None and not Path("/usr/sbin/nginx").exists():
        try:
            apt_install("nginx-light", "nginx is missing", RUNLEVEL="1")
        except MissingError as error:
            print(f"tests through the proxy are skipped: {error}", flush=True)


def ensure_prometheus():
    """Unpack Debian's prometheus in .build. It is not installed, because its package starts services.

    Without it, the tests that evaluate the alert rules and the dashboard's queries skip.
    """
    if (PROMETHEUS / "promtool").exists() or shutil.which("promtool"):
        return
    directory = BUILD / "prometheus"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        # As root, apt-get warns that its unprivileged user cannot write here. The package is downloaded nevertheless.
        download = ["apt-get", "-q", "download", "prometheus"]
        with lock("apt"):
            if subprocess.run(download, cwd=directory, check=False).returncode != 0:
                subprocess.run(["apt-get", "-q", "update"], check=True)
                subprocess.run(download, cwd=directory, check=True)
        (package,) = directory.glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(directory)], check=True)
        package.unlink()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"tests with Prometheus are skipped: apt-get download prometheus: {error}", flush=True)


def apt_install(packages, problem, **variables):
    """Install Debian packages; raise MissingError with the problem and the remedy if that is not possible.

    Parts of a run that need packages wait for each other. variables: of the environment.
    """
    names = [packages] if isinstance(packages, str) else list(packages)
    remedy = f"as root: apt-get install {' '.join(names)}"
    if shutil.which("apt-get") is None:
        raise MissingError(f"{problem}; this is not Debian or Ubuntu: install the equivalents of {' '.join(names)}")
    if os.geteuid() != 0:
        raise MissingError(f"{problem}; {remedy}")
    print(f"installing {', '.join(names)} with apt-get", flush=True)
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive", **variables)
    # With a timeout, because a machine that was just started may install updates at the same time.
    apt = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300"]
    with lock("apt"):
        for arguments in (["update"], ["install", "--no-install-recommends", *names]):
            done = subprocess.run(
                [*apt, *arguments], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
            if done.returncode:
                raise MissingError(
                    f"{problem}; `apt-get {arguments[0]}` ended with {done.returncode}: {done.stderr.strip()}; {remedy}"
                )


def real_pythons():
    """Return interpreters by version ("3.8"): from PATH without version managers' shims, then from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if Path(part).name != "shims"]
    found = {}
    for version in PYTHONS:
        candidates = [folder / f"python{version}" for folder in folders if folder != VENV / "bin"]
        candidates += sorted(pyenv.glob(f"versions/{version}*/bin/python{version}"))
        for candidate in candidates:
            if candidate.is_file() and works(candidate, version):
                found[version] = candidate.resolve()
                break
    return found


def works(interpreter, version):
    """Return whether an interpreter has this version and can make virtual environments."""
    probe = "import sys, venv, ssl; print('%d.%d' % sys.version_info[:2])"
    result = subprocess.run([str(interpreter), "-c", probe], capture_output=True, text=True, check=False)
    return result.stdout.strip() == version


def is_usable(directory, version=sys.version_info[:2]):
    """Return whether a virtual environment works, has this version of Python, and was created at this path."""
    python, pip = directory / "bin" / "python", directory / "bin" / "pip"
    if not python.exists() or not pip.exists():
        return False
    # The scripts in bin/ name the place where they were made: a checkout that was moved needs new ones.
    if str(directory) not in pip.read_text(errors="replace"):
        return False
    probe = [str(python), "-c", "import pip, sys; print(list(sys.version_info[:2]))"]
    result = subprocess.run(probe, capture_output=True, text=True, check=False)
    return result.returncode == 0 and result.stdout.strip() == str(list(version))


def make_venv(directory, requirements, key, interpreter=None):
    """Create a virtual environment with pip's arguments `requirements`; return whether anything changed.

    key: text that changes whenever the result would; the directory and the arguments are added to it.
    interpreter: of real_pythons, (version, path); default: this Python.
    """
    version, program = interpreter or ("{}.{}".format(*sys.version_info), sys.executable)
    python = directory / "bin" / "python"
    stamp = directory / ".stamp"
    key = hashlib.sha256("\0".join([key, str(directory), *map(str, requirements)]).encode()).hexdigest()
    with lock(f"venv-{directory.name}"):
        usable = is_usable(directory, tuple(int(part) for part in version.split(".")))
        if usable and up_to_date(stamp, key):
            return False
        if interpreter is None:
            ensure_venv_module()
        if not usable:
            subprocess.run([str(program), "-m", "venv", "--clear", str(directory)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, *map(str, requirements)], check=True, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL
        )
        stamp.write_text(key)
    return True


def venv():
    """Create .venv from tests/requirements.txt."""
    name = "tests/requirements.txt"
    return make_venv(VENV, ["-r", name], digest([name]))


def collection_sources():
    """Return the files of the checkout from which the collection is built."""
    return [name for name in sources() if name.split("/")[0] not in NOT_IN_COLLECTION]


def collection():
    """Build the collection and install it in .build/collections, offline, as `ansible-galaxy` does for a user."""
    venv()
    names = collection_sources()
    links = [name for name in names if (ROOT / name).is_symlink()]
    if links:
        raise MissingError(f"symbolic links cannot be part of the collection: {', '.join(links)}: make them files")
    stamp = BUILD / "collection.stamp"
    key = digest(names, str(ROOT))
    with lock("collection"):
        if COLLECTION.is_dir() and up_to_date(stamp, key):
            return False
        stamp.unlink(missing_ok=True)
        source, dist, fresh = BUILD / "source", BUILD / "dist", BUILD / "collections.new"
        for directory in (source, dist, fresh):
            shutil.rmtree(directory, ignore_errors=True)
        # From a copy of what the stamp covers: caches of tools do not get in, and a file edited meanwhile does no harm.
        copy(names, source)
        galaxy("build", "--output-path", str(dist), str(source))
        (archive,) = dist.glob("glidein-ops-*.tar.gz")
        # Without --force nothing happens while the last one still lies in ANSIBLE_COLLECTIONS_PATH.
        galaxy("install", "--force", "--offline", "--no-deps", "-p", str(fresh), str(archive))
        # Swapped whole: a play that is running meets the old or the new collection, no half of either for long.
        shutil.rmtree(COLLECTIONS, ignore_errors=True)
        fresh.rename(COLLECTIONS)
        stamp.write_text(key)
    return True


def awx_collection():
    """Unpack the collection awx.awx, as the package `ansible` contains it, in .build/awx."""
    venv()
    stamp = AWX_COLLECTIONS / ".stamp"
    with lock("awx"):
        if up_to_date(stamp, AWX_PACKAGE):
            return False
        shutil.rmtree(AWX_COLLECTIONS, ignore_errors=True)
        AWX_COLLECTIONS.mkdir(parents=True)
        command = [str(VENV / "bin" / "python"), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "."]
        subprocess.run(
            [*command, AWX_PACKAGE], check=True, cwd=AWX_COLLECTIONS, env=environment(), stdin=subprocess.DEVNULL
        )
        (wheel,) = AWX_COLLECTIONS.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if name.startswith("ansible_collections/awx/awx/")]
            archive.extractall(AWX_COLLECTIONS, wanted)
        wheel.unlink()
        stamp.write_text(AWX_PACKAGE)
    return True


def galaxy(action, *arguments):
    """Run `ansible-galaxy collection`; show its output only if it fails."""
    command = [str(VENV / "bin" / "ansible-galaxy"), "collection", action, *arguments]
    result = subprocess.run(
        command,
        cwd=BUILD,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        print(result.stdout, file=sys.stderr)
        raise subprocess.CalledProcessError(result.returncode, command)


def main():
    """Run the step that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("venv", help="make .venv")
    actions.add_parser("collection", help="build and install the collection in .build/collections")
    run = actions.add_parser("exec", help="run a command in the environment of the tests")
    run.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.action == "exec":
            sys.exit(subprocess.run(options.command, env=environment(), check=False).returncode)
        changed = {"venv": venv, "collection": collection}[options.action]()
    except MissingError as error:
        sys.exit(f"error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: exit status {error.returncode} from: {' '.join(map(str, error.cmd))}")
    print(f"{options.action}: {'made' if changed else 'up to date'}")


if __name__ == "__main__":
    main()
