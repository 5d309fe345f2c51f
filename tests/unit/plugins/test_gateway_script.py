# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that controls a gateway, with stand-ins for HTCondor and cron."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import time

import pytest

ROOT = pathlib.Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("flock", "setsid", "timeout", "awk"))), reason="no flock, setsid, timeout or awk"
)

MASTER = "#!/bin/sh\nenv > {dir}/environment\nexec sleep 60\n"
# Status and universe. The last job is the received one of a routed pilot, whose copy is another job.
JOBS = "1 9\n1 5\n2 9\n2 9\n4 9\n5 9"
QUEUE = f"""#!/bin/sh
case "$*" in
*JobStatus\\ =*) echo 1; echo 2 ;;
*RoutedToJobId\\ is\\ undefined*JobUniverse) echo "{JOBS}" ;;
*RoutedToJobId\\ is\\ undefined*) echo "{JOBS}" | cut -c 1 ;;
*) echo "{JOBS}"; echo "2 5" ;;
esac
"""
MINT = '#!/bin/sh\necho "token of $*"\n'
CRONTAB = """#!/bin/sh
case $1 in
-l) cat {table} ;;
-r) rm {table} ;;
-) cat > {table}.new; mv {table}.new {table} ;;
esac
"""


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)


def wait(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Gateway:
    """A gateway whose daemons are shell scripts."""

    def __init__(self, home):
        self.home = home
        self.dir = home / "gateways" / "lab"
        self.table = home / "table"
        self.dir.mkdir(parents=True)
        shutil.copy(str(ROOT / "files/gateway/gateway.sh"), str(self.dir / "gateway"))
        (self.dir / "gateway").chmod(0o700)
        (self.dir / "condor_config").write_text('# PATH=/usr/bin:/bin\nGLIDEIN_Site = "lab"\n')
        (self.dir / "blah.config.site").write_text("slurm_binpath=/opt/slurm\nnew=1\n")
        self.pack("one")
        script(home / "bin/crontab", CRONTAB.format(table=self.table))
        # No systemd of the user that runs the tests is touched.
        script(home / "bin/systemctl", "#!/bin/sh\nexit 1\n")
        script(home / "bin/loginctl", "#!/bin/sh\nexit 1\n")

    def pack(self, name):
        """Make a tarball of a release."""
        tree = self.home / name
        script(tree / "sbin/condor_master", MASTER.format(dir=self.dir))
        script(tree / "bin/condor_q", QUEUE)
        script(tree / "bin/condor_token_create", MINT)
        script(tree / "etc/blah.config", "# comment\nslurm_binpath=/usr/bin\npbs_pro=no\n")
        (tree / "MANIFEST.json").write_text('{\n "htcondor": "23.9.6",\n "arch": "x86_64"\n}\n')
        files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files]
        (tree / "SHA256SUMS").write_text("".join(sums))
        with tarfile.open(str(self.home / f"{name}.tar.gz"), "w:gz") as tar:
            tar.add(str(tree), ".")

    def __call__(self, *arguments, rc=0):
        environment = {
            "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LD_LIBRARY_PATH": "/opt/secret",
        }
        done = subprocess.run(
            [str(self.dir / "gateway"), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == rc, done
        return done.stdout + done.stderr

    def unpack(self, name):
        self("unpack", name, str(self.home / f"{name}.tar.gz"))

    def state(self):
        return json.loads(self("status"))

    def masters(self):
        """Return the process ids of the gateway."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                variables = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if f"GLIDEIN_GATEWAY={self.dir}".encode() in variables:
                found.append(int(path.parent.name))
        return found


@pytest.fixture()
def gateway(tmp_path):
    made = Gateway(tmp_path)
    made.unpack("one")
    yield made
    for pid in made.masters():
        os.kill(pid, signal.SIGKILL)


def test_cron_starts_the_gateway_and_keeps_it_alive(gateway):
    gateway.table.write_text("5 * * * * other\n")
    assert gateway("install", "cron").split() == ["changed", "changed"]
    wait(gateway.masters)
    keep = f"{gateway.dir}/gateway keep"
    assert gateway.table.read_text() == f"5 * * * * other\n@reboot {keep}\n* * * * * {keep}\n"
    assert gateway("install", "cron") == ""
    first = gateway.masters()
    gateway("keep")  # as cron does
    time.sleep(0.3)
    assert gateway.masters() == first
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    wait(lambda: not gateway.masters())
    gateway("keep")
    wait(gateway.masters)


def test_the_daemons_get_a_clean_environment(gateway):
    gateway("install", "cron")
    environment = gateway.dir / "environment"
    wait(lambda: environment.exists() and "CONDOR_CONFIG" in environment.read_text())
    names = {line.partition("=")[0] for line in environment.read_text().splitlines()} - {"PWD", "_", "SHLVL"}
    assert names == {
        *("HOME", "USER", "LOGNAME", "LANG", "PATH", "CONDOR_CONFIG", "BLAHPD_CONFIG_LOCATION", "GLIDEIN_GATEWAY")
    }


def test_a_restart_runs_another_process(gateway):
    gateway("install", "cron")
    wait(gateway.masters)
    before = gateway.masters()
    gateway("restart")
    wait(lambda: gateway.masters() and not set(gateway.masters()) & set(before))


def test_uninstall_leaves_nothing_running_and_other_cron_jobs(gateway):
    gateway.table.write_text("5 * * * * other\n")
    gateway("install", "cron")
    wait(gateway.masters)
    gateway("uninstall")
    assert gateway.masters() == []
    assert gateway.table.read_text() == "5 * * * * other\n"
    assert gateway.state()["supervisor"] == "none"


def test_a_crontab_without_other_jobs_is_removed(gateway):
    gateway("install", "cron")
    gateway("uninstall")
    assert not gateway.table.exists()


def test_the_site_replaces_settings_of_blahp(gateway):
    gateway("install", "cron")
    config = gateway.dir / "blah.config"
    wait(config.exists)
    # Python's parser of this file refuses a setting that is there twice.
    assert config.read_text() == "# comment\npbs_pro=no\nslurm_binpath=/opt/slurm\nnew=1\n"


def test_another_release_replaces_the_first_one(gateway):
    gateway.pack("two")
    gateway.unpack("two")
    assert os.readlink(str(gateway.dir / "release")) == "releases/two"
    assert [path.name for path in (gateway.dir / "releases").iterdir()] == ["two"]


def test_a_damaged_release_is_refused(gateway):
    (gateway.home / "one/etc/blah.config").write_text("changed\n")
    with tarfile.open(str(gateway.home / "bad.tar.gz"), "w:gz") as tar:
        tar.add(str(gateway.home / "one"), ".")
    assert "is damaged" in gateway("unpack", "bad", str(gateway.home / "bad.tar.gz"), rc=1)
    assert os.readlink(str(gateway.dir / "release")) == "releases/one"


def test_the_submitters_token_is_renewed_when_it_is_old(gateway):
    assert gateway("token", "864000", "432000").strip() == "changed"
    token, key = gateway.dir / "submit-token", gateway.dir / "passwords.d/POOL"
    assert "@gateway-lab -lifetime 864000 -authz READ -authz WRITE" in token.read_text()
    assert len(key.read_bytes()) == 64
    assert {path.stat().st_mode & 0o777 for path in (token, key)} == {0o600}
    assert gateway("token", "864000", "432000") == ""
    six_days_ago = time.time() - 6 * 86400
    os.utime(str(token), (six_days_ago, six_days_ago))
    assert gateway("token", "864000", "432000").strip() == "changed"


def test_status_counts_jobs(gateway):
    assert gateway.state() == {"state": "stopped", "version": "23.9.6", "supervisor": "none", "jobs": None}
    gateway("install", "cron")
    wait(gateway.masters)
    assert gateway.state() == {
        "state": "running",
        "version": "23.9.6",
        "supervisor": "cron",
        "jobs": {"idle": 2, "running": 2, "held": 1, "unrouted": 1},
    }
    assert gateway("unfinished").strip() == "2"
    lines = gateway("attributes").splitlines()
    assert lines == ["JobsIdle = 2", "JobsRunning = 2", "JobsHeld = 1", "- update:true"]


def test_a_schedd_that_does_not_answer_is_reported(gateway):
    gateway("install", "cron")
    wait(gateway.masters)
    script(gateway.dir / "release/bin/condor_q", "#!/bin/sh\nexit 1\n")
    assert gateway.state()["state"] == "unresponsive"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["install", "systemd"], "loginctl enable-linger"),
        (["install", "at"], "expected auto, systemd or cron"),
        (["what"], "expected run, keep"),
    ],
)
def test_errors_name_what_is_expected(gateway, arguments, message):
    assert message in gateway(*arguments, rc=1)
