# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of a login node in a directory, and of glideins that run from it as an ordinary user with each shell."""

import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash"]}
# The shells of this run: all, or those that GLIDEIN_TEST_SHELLS names, separated by commas. Tests that need no
# particular shell use the first.
SELECTED = os.environ.get("GLIDEIN_TEST_SHELLS", ",".join(SHELLS)).split(",")
if not set(SELECTED) <= set(SHELLS):
    raise pytest.UsageError(
        f"GLIDEIN_TEST_SHELLS={','.join(SELECTED)} is invalid; expected names of {', '.join(SHELLS)}"
    )
ARCH = platform.machine()
NOBODY = 65534
TOKEN = ".".join(["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJnbGlkZWluIn0", "c2lnbmF0dXJl"])

# A shell cannot catch signals that were ignored when it started, as under nohup or in the background. A handler that
# does nothing has the same effect here, and child processes do not inherit it.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *unused: None)

# Time limits of glidein.sh that a busy machine may exceed although nothing hangs. A test of one of them sets it again.
SHORT_LIMITS = ("NAME_S", "CVMFS_S", "RENEWAL_S", "kill_leftovers", "save_logs", "upload_logs")

STAND_IN = (Path(__file__).parent / "stand_in_master.sh").read_bytes()


def pack(files):
    """Return a .tar.gz of {name: (content, mode)}, with its directories."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for directory in sorted({str(parent) for name in files for parent in Path(name).parents}):
            info = tarfile.TarInfo("./" + directory)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name, (data, mode) in sorted(files.items()):
            info = tarfile.TarInfo("./" + name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(raw.getvalue())


def list_line(name, arch, glibc, packed):
    """Return a line of tarballs.list, as the role `site` writes it."""
    return " ".join([name, arch, glibc, "0.0.0", "none", hashlib.sha256(packed).hexdigest(), name + ".tar.gz"]) + "\n"


@functools.lru_cache(maxsize=None)
def patient_payload():
    """Return a copy of files/glidein with other time limits: a temporary directory, which is made once."""
    directory = tempfile.TemporaryDirectory()
    shutil.copytree(ROOT / "files" / "glidein", directory.name, dirs_exist_ok=True)
    for name, seconds in {"LOOK_S": 1, **dict.fromkeys(SHORT_LIMITS, 300)}.items():
        limit_in(Path(directory.name), name, seconds)
    return directory


class Site:
    """The directory ~/.glidein/SITE of a login node, which an ordinary user can read."""

    def __init__(self, root):
        self.root = root
        self.home = root / "a home" / "v1"
        self.scratch = root / "scratch of node 1"
        self.logs = root / "log"
        self.credential = root / "credential"
        shutil.copytree(patient_payload().name, self.home)
        self.scratch.mkdir()
        self.logs.mkdir()
        self.credential.write_text(TOKEN + "\n")
        self.credential.chmod(0o600)
        self.bring("good")

    def bring(self, behaviour, extra=None, master=STAND_IN, name="native", arch=ARCH, glibc="2.0"):
        """Install a single tarball whose condor_master is the stand-in with this `behaviour`."""
        self.list.write_text("")
        return self.add(behaviour, extra, master, name, arch, glibc)

    def add(self, behaviour, extra=None, master=STAND_IN, name="more", arch=ARCH, glibc="2.0", base=None):
        """Add a tarball. base: the address of `root/www`; the tarball is then there instead of in the payload."""
        files = {
            "sbin/condor_master": (master, 0o755),
            "etc/behaviour": (behaviour.encode(), 0o644),
            # One key per line, because the payload has no JSON parser.
            "MANIFEST.json": (b'{\n "htcondor": "0.0.0",\n "platform": "none",\n "arch": "all"\n}\n', 0o644),
        }
        files.update(extra or {})
        sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, (data, _mode) in files.items())
        files.setdefault("SHA256SUMS", (sums.encode(), 0o644))
        packed = pack(files)
        directory = self.root / "www" if base else self.home / "tarballs"
        directory.mkdir(exist_ok=True)
        sha256 = hashlib.sha256(packed).hexdigest()
        (directory / ("{}-{}.tar.gz".format(name, sha256[:12]) if base else name + ".tar.gz")).write_bytes(packed)
        line = list_line(name, arch, glibc, packed)
        self.list.write_text(self.list.read_text() + ("from {}\n".format(base) if base else "") + line)
        return self

    @property
    def list(self):
        return self.home / "tarballs.list"

    @property
    def tarball(self):
        return self.home / "tarballs" / "native.tar.gz"

    def replace(self, packed):
        """Replace the content of the tarball and its checksum in the list."""
        self.tarball.write_bytes(packed)
        self.list.write_text(list_line("native", ARCH, "2.0", packed))
        return self

    def settings(self, **changes):
        """Return the environment of a glidein; a change to None removes the variable."""
        values = {
            "PATH": "/usr/bin:/bin",
            "GLIDEIN_DEPLOYMENT": "test",
            "GLIDEIN_SITE": "site-1",
            "GLIDEIN_ENTRY": "short",
            "GLIDEIN_SHAPE": "small",
            "GLIDEIN_HOME": self.home,
            "GLIDEIN_CREDENTIAL": self.credential,
            "GLIDEIN_COLLECTOR": "localhost",
            "GLIDEIN_CPUS": 2,
            "GLIDEIN_MEMORY_MB": 1024,
            "GLIDEIN_DISK_MB": 1,
            "GLIDEIN_GPUS": 0,
            "GLIDEIN_WALLTIME_S": 3600,
            "GLIDEIN_RETIREMENT_S": 600,
            "GLIDEIN_IDLE_TIMEOUT_S": 1200,
            "GLIDEIN_SCRATCH": self.scratch,
            "GLIDEIN_LOG_DIR": self.logs,
            "GLIDEIN_ATTRIBUTES": 'OpSysAndVer = "RHEL8"\nHAS_X = true',
            "GLIDEIN_BATCH_ID": "123_4[5].server",
        }
        values.update(changes)
        return {name: str(value) for name, value in values.items() if value is not None}

    def start(self, shell, output=None, **changes):
        """Start a glidein. output: a file descriptor for its output instead of a file."""
        return Glidein(self, shell, self.settings(**changes), output)

    def run(self, shell, **changes):
        """Run a glidein to its end; return (exit status, output)."""
        return self.start(shell, **changes).end()

    def give_to_user(self):
        if os.getuid() == 0:
            os.chown(self.root, NOBODY, NOBODY)
            for directory, directories, files in os.walk(self.root):
                for name in directories + files:
                    # Other processes here make and remove files meanwhile.
                    with contextlib.suppress(FileNotFoundError):
                        os.chown(Path(directory, name), NOBODY, NOBODY, follow_symlinks=False)


class Glidein:
    """A started glidein.sh in a process group of its own."""

    def __init__(self, site, shell, environment, output=None):
        self.site = site
        # The guard runs with the same shell.
        for part in (site.home / "lib" / "daemons.sh", site.home / "lib" / "guard.sh"):
            part.write_text(part.read_text().replace(' /bin/sh "$', f' {" ".join(SHELLS[shell])} "$'))
        site.give_to_user()
        handle, name = tempfile.mkstemp(dir=site.root, prefix="out.")
        self.output_file = Path(name)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        self.process = subprocess.Popen(
            [*SHELLS[shell], str(site.home / "glidein.sh")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=handle if output is None else output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **user,
        )
        os.close(handle)

    @property
    def output(self):
        return self.output_file.read_text()

    def wait_for(self, text, timeout=120):
        deadline = time.monotonic() + timeout
        while text not in self.output:
            assert time.monotonic() < deadline and self.process.poll() is None, self.output
            time.sleep(0.05)
        return self

    def directory(self):
        """Return its scratch directory."""
        return next(self.site.scratch.glob("glidein.*"))

    def signal(self, number):
        self.process.send_signal(number)
        return self

    def signal_group(self, number):
        os.killpg(self.process.pid, number)
        return self

    def end(self, timeout=300):
        """Wait until the glidein ends; return (exit status, output)."""
        try:
            return self.process.wait(timeout), self.output
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


def program(site, name, body):
    """Install a program that replaces the node's own and may `exec {real} "$@"`; return the PATH."""
    directory = site.root / "programs"
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text("#!/bin/sh\n" + body.format(real="/usr/bin/" + name) + "\n")
    path.chmod(0o755)
    return "{}:/usr/bin:/bin".format(directory)


def advance_clock(site, seconds=0):
    """Advance the clock of the site's glideins, which they read from a file after this function has been called."""
    report = site.home / "lib" / "run.sh"
    clock = "  NOW=$((CLOCK_AT"
    if clock in report.read_text():
        ahead = f"  read -r AHEAD <'{site.root}/clock'\n  NOW=$((AHEAD + CLOCK_AT"
        report.write_text(report.read_text().replace(clock, ahead))
    new = site.root / "clock.new"
    new.write_text(f"{seconds}\n")
    new.chmod(0o644)
    new.rename(site.root / "clock")


def limit(site, name, seconds):
    """Change one of the script's time limits: a constant NAME, or the limit of the step NAME."""
    limit_in(site.home, name, seconds)


def limit_in(payload, name, seconds):
    changed = 0
    for path in (payload / "glidein.sh", *(payload / "lib").glob("*.sh")):
        text = path.read_text()
        new = re.sub(r"^{}=\d+".format(name), "{}={}".format(name, seconds), text, flags=re.MULTILINE)
        new = re.sub(
            r"^((?:run_step|try_step|  .*run_limited) )\d+( .*\b{}\b)".format(name),
            r"\g<1>{}\2".format(seconds),
            new,
            flags=re.MULTILINE,
        )
        changed += new != text
        if new != text:
            path.write_text(new)
    assert changed, name


def wait_for_round(glidein):
    """Wait until the glidein has renewed its token, which it does after all its checks. RENEW_S must be short."""
    renewed = glidein.output.count("credential renewed")
    glidein.site.credential.write_text(f"{TOKEN}{renewed}\n")
    assert becomes(lambda: glidein.output.count("credential renewed") > renewed), glidein.output


def job_ad(wall_s, cpus=1, code=0, ended=1795255185, told=None, more=""):
    """Return a shortened ad of STARTD_HISTORY of 23.9.6. told: when the job ended by itself, or None."""
    lines = [f"CompletionDate = {ended}", f"CpusProvisioned = {cpus}", "ExitBySignal = false", f"ExitCode = {code}"]
    lines += ["JobPid = 1081", f"RemoteWallClockTime = {wall_s}", "RequestCpus = 1"]
    if told is not None:
        lines.append(
            f'ToE = [ How = "OF_ITS_OWN_ACCORD"; Who = "itself"; When = {told}; HowCode = 0; ExitCode = {code}; '
            "ExitBySignal = false ]"
        )
    lines += [more] if more else []
    return "\n".join([*lines, f'*** Offset = 0 ClusterId = 2 ProcId = 0 Owner = "a" CompletionDate = {ended}', ""])


def summaries(output):
    """Return the summaries in a glidein's log."""
    return [json.loads(line.split(" ", 3)[3]) for line in output.splitlines() if " glidein: summary {" in line]


@pytest.fixture(params=SELECTED)
def shell(request):
    return require(request.param)


@pytest.fixture()
def any_shell():
    """Return the shell of a test that needs no particular one."""
    return require(SELECTED[0])


def becomes(is_so, seconds=60):
    """Return True as soon as `is_so()` is true; return False if it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_installed(name):
    return shutil.which(SHELLS[name][0]) is not None


def run_lib(shell, script, *arguments, **options):
    """Run commands in a shell, with files/glidein/lib as $0; return the CompletedProcess. No process survives."""
    options = {"stdin": "", "env": {"PATH": "/usr/bin:/bin"}, **options}
    # From a file: with -c, a child process of busybox that has an error may spin for ever.
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script.replace("$0", str(ROOT / "files/glidein/lib")) + "\n")
        file.flush()
        command = [*SHELLS[shell], "-u", file.name, *map(str, arguments)]
        process = subprocess.Popen(
            command, env=options["env"], stdin=-1, stdout=-1, stderr=-1, text=True, start_new_session=True
        )
        try:
            printed, errors = process.communicate(options["stdin"], timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


def require(name):
    """Return the shell's name; skip the test with the reason if the shell is not installed."""
    if not is_installed(name):
        pytest.skip("{0} is not installed: as root, apt-get install {0}".format(name))
    return name


def processes_in(directory):
    """Return {process id: command line} of the processes that run from or in `directory`."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            places = [str((process / "cwd").readlink()), str((process / "exe").readlink())]
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if any(place.startswith(str(directory)) for place in places) or str(directory).encode() in command:
            found[int(process.name)] = command
    return found


def end_all_in(directory):
    """Kill the processes that run from or in `directory`, so that it can be removed."""
    deadline = time.monotonic() + 60
    while True:
        processes = processes_in(directory)
        if not processes:
            return
        assert time.monotonic() < deadline, processes
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


@contextlib.contextmanager
def place_for_sites():
    """Yield a directory that other users can read, unlike pytest's temporary directory."""
    with tempfile.TemporaryDirectory(prefix="glidein-test.") as name:
        Path(name).chmod(0o755)
        try:
            yield Path(name)
        finally:
            end_all_in(name)


def new_site():
    """Yield a new Site."""
    with place_for_sites() as root:
        yield Site(root)


@pytest.fixture()
def site():
    yield from new_site()


@pytest.fixture(scope="module")
def untouched_site():
    """Yield a Site for all tests of a module whose glideins write nothing."""
    yield from new_site()
