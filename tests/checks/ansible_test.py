# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of ansible-test in a copy of the checkout: `sanity`, `units` on another Python, `python3.6` with the old core.

ansible-test requires a path .../ansible_collections/glidein/ops. Its virtual environments and caches are in a separate
HOME under .build, so that the user's ~/.ansible does not change, and in tests/output of the copy. Both are kept for the
next run. tests/checks/units.py runs all unit tests on the controller's Python.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

SKIPPED = 77
# Pythons on which modules of tests/requirements.txt's ansible-core run.
CORE_PYTHONS = [f"3.{minor}" for minor in range(8, 14)]
# The last ansible-core whose modules run on RHEL 8's Python 3.6, and the controllers' Pythons that it supports.
OLD_CORE, OLD_CORE_PYTHONS = "ansible-core==2.16.19", ((3, 10), (3, 12))
# The versions of pip that these and .venv's ansible-core bootstrap their virtual environments with.
PIPS = ("24.2",)
OLD_CORE_PIPS = ("23.1.2", "21.3.1")
# The tests of what runs on login nodes, and so on any Python: below tests/unit/plugins.
LOGIN_NODE_TESTS = ("modules", "module_utils/batch", "module_utils/common", "module_utils/login_node")
BOOTSTRAP = re.compile(r"bootstrap script can be manually downloaded and saved to: (\S+)")

PIP_FROM_WHEEL = '''\
"""Stands in for get-pip.py: pip, out of PyPI's wheel of it, installs what it is told to."""
import sys
sys.path.insert(0, {wheel!r})
from pip._internal.cli.main import main
sys.exit(main(["install", *(a for a in sys.argv[1:] if a not in ("--no-setuptools", "--no-wheel"))]))
'''


def copy_sources(target):
    """Make target contain exactly the checkout's files, ansible-test's own files in tests/output, and compiled Python.

    Files that did not change are not copied again, so their compiled forms remain valid.
    """
    names = prepare.sources()
    wanted = {target / name for name in names}
    kept = (target / ".git", target / "tests" / "output")
    for path in sorted(target.rglob("*"), reverse=True):
        in_cache = path.parent.name == "__pycache__"
        if path in wanted or path.is_dir() or in_cache or any(place in (path, *path.parents) for place in kept):
            continue
        path.unlink()
    prepare.copy([name for name in names if not is_copied(prepare.ROOT / name, target / name)], target)
    # A repository of its own: in the checkout's, .build is ignored, and ansible-test would find nothing to test.
    subprocess.run(["git", "init", "--quiet", "."], cwd=target, check=True)


def is_copied(source, copy):
    """Return whether a copy has the size, the mode and the time of change of its source."""
    if not copy.is_file():
        return False
    first, second = source.stat(), copy.stat()
    return all(getattr(first, field) == getattr(second, field) for field in ("st_size", "st_mode", "st_mtime_ns"))


def link_pythons(folder, pythons):
    """Fill a folder with links pythonX.Y, so that ansible-test finds only these."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for version, interpreter in pythons.items():
        (folder / f"python{version}").symlink_to(interpreter)


def provide_bootstrap(path):
    """Write the script that bootstraps pip to `path`, where ansible-test looks for it; it uses PyPI's wheel of pip."""
    version = path.stem[len("get_pip_") :].replace("_", ".")
    folder = path.parent / f"pip-{version}"
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), f"pip=={version}"]
    # The wheel is for another Python than this one, perhaps: pip 21.3.1 for Python 3.6.
    subprocess.run([*download, "--only-binary=:all:", "--ignore-requires-python"], check=True)
    (wheel,) = folder.glob("pip-*.whl")
    path.write_text(PIP_FROM_WHEEL.format(wheel=str(wheel)))
    print(f"{path} uses pip {version} from PyPI", flush=True)


class AnsibleTest:
    """A run of one virtual environment's ansible-test in a tree of its own."""

    def __init__(self, venv, name, pythons, pips=PIPS):
        """Set venv, which has ansible-core; name, of the tree; pythons, interpreters by version; pips, see PIPS."""
        self.program = venv / "bin" / "ansible-test"
        base = prepare.BUILD / "ansible-test" / name
        self.tree = base / "ansible_collections" / "glidein" / "ops"
        self.tree.mkdir(parents=True, exist_ok=True)
        copy_sources(self.tree)
        link_pythons(base / "bin", pythons)
        env = prepare.environment()
        path = os.pathsep.join([str(base / "bin"), str(venv / "bin"), env["PATH"]])
        self.env = dict(env, PATH=path, HOME=str(base / "home"))
        self.env.pop("VIRTUAL_ENV")
        for config in (".config/pip/pip.conf", ".pip/pip.conf"):  # with another HOME, the user's mirror must be named
            if (Path.home() / config).is_file():
                self.env.setdefault("PIP_CONFIG_FILE", str(Path.home() / config))
        # Before ansible-test tries to download it: a run that fails half-way is slower, and depends on another server.
        for version in pips:
            script = base / "home" / ".ansible" / "test" / "cache" / f"get_pip_{version.replace('.', '_')}.py"
            if not script.is_file():
                script.parent.mkdir(parents=True, exist_ok=True)
                provide_bootstrap(script)

    def run(self, *arguments):
        """Run ansible-test; return its exit status.

        If it could not download a bootstrap script of a version that is not in PIPS, provide that and run it again.
        ansible-test creates a virtual environment anew that the failed run has left incomplete.
        """
        provided = set()
        while True:
            status, output = self.attempt(arguments)
            missing = set(BOOTSTRAP.findall(output)) - provided
            if "All targets skipped" in output:
                sys.exit("ansible-test found nothing to test")
            if status == 0 or not missing:
                return status
            for path in missing:
                provide_bootstrap(Path(path))
            provided |= missing

    def attempt(self, arguments):
        """Run ansible-test once and show its output while it runs; return exit status and output."""
        command = [str(self.program), *arguments, "--color", "no"]
        print("+ ansible-test", *arguments, flush=True)
        lines = []
        with subprocess.Popen(
            command, cwd=self.tree, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            for line in process.stdout:
                lines.append(line)
                print(line, end="", flush=True)
        return process.returncode, "".join(lines)


def sanity():
    """Run all sanity tests, on the Python of .venv and with the newest rules."""
    return AnsibleTest(prepare.VENV, "sanity", prepare.real_pythons()).run("sanity", "--local")


def login_node_tests(tree):
    """Return the paths of LOGIN_NODE_TESTS for the command line of ansible-test."""
    top = tree / "tests" / "unit" / "plugins"
    found = sorted(path for pattern in LOGIN_NODE_TESTS for path in top.glob(pattern))
    return [f"{path.relative_to(tree)}/" if path.is_dir() else str(path.relative_to(tree)) for path in found]


def units():
    """Run the unit tests of login-node code on the newest Python found that ansible-core's modules support.

    The oldest is left to `python3.6` if that can run. Tests on the controller's Python are left to units.py.
    """
    pythons = prepare.real_pythons()
    supported = [version for version in CORE_PYTHONS if version in pythons]
    versions = dict.fromkeys(supported[-1:] if has_old_core(pythons) else supported[:1] + supported[-1:])
    versions.pop("{}.{}".format(*sys.version_info), None)
    if not versions:
        print("no other supported Python than the controller's in PATH or pyenv; tests/checks/units.py uses that")
        return SKIPPED
    test = AnsibleTest(prepare.VENV, "units", pythons)
    tests = login_node_tests(test.tree)
    return max(test.run("units", "--venv", "--python", version, *tests) for version in versions)


def has_old_core(pythons):
    """Return whether the last ansible-core for Python 3.6 runs here."""
    oldest, newest = OLD_CORE_PYTHONS
    return "3.6" in pythons and oldest <= sys.version_info[:2] <= newest


def python36():
    """Run compile, import and unit tests on login nodes' oldest Python, with the last ansible-core that supports it."""
    pythons = prepare.real_pythons()
    if not has_old_core(pythons):
        own = sys.version.split()[0]
        print(f"no Python 3.6 in PATH or pyenv, or {OLD_CORE} does not run on {own}; the check `vermin` looks after it")
        return SKIPPED
    venv = prepare.BUILD / "venv-2.16"
    prepare.make_venv(venv, [OLD_CORE], "")
    test = AnsibleTest(venv, "python3.6", pythons, OLD_CORE_PIPS)
    imports = test.run("sanity", "--local", "--test", "compile", "--test", "import", "--python", "3.6")
    return test.run("units", "--venv", "--python", "3.6", *login_node_tests(test.tree)) or imports


def main():
    """Run the test that the command line names."""
    actions = {"sanity": sanity, "units": units, "python3.6": python36}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        sys.exit(f"usage: ansible_test.py {'|'.join(actions)}")
    return actions[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
