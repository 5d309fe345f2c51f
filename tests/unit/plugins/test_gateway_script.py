# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that controls a gateway, with stand-ins for HTCondor."""

import base64
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import tarfile
import time

import pytest
from ansible_collections.glidein.ops.tests.unit.support.programs import run_program, write_program

ROOT = pathlib.Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("flock", "setsid", "timeout", "awk"))), reason="no flock, setsid, timeout or awk"
)

SSH_PROGRAM = '#!/bin/sh\necho "$(basename "$0") $*"\nenv >&2\n'
MASTER = "#!/bin/sh\nenv > {dir}/environment\nexec sleep 60\n"
# Status and universe. The last job is the received one of a routed pilot, whose copy is another job.
JOBS = "1 9\n1 5\n2 9\n2 9\n4 9\n5 9"
QUEUE = f"""#!/bin/sh
case "$*" in
*JobStatus\\ =*) echo 1; echo 2 ;;
*RoutedToJobId\\ is\\ undefined*JobUniverse) echo "{JOBS}" ;;
*-af\\ RoutedToJobId\\ is\\ undefined\\ JobStatus) echo "{JOBS}" | sed "s/^/true /"; echo "false 2 5" ;;
*) exit 1 ;;
esac
"""
# Stores its input and configuration. It routes the second of two jobs. With -diagnostic, it prints the files `routes.*`
# and `applied.*`.
ROUTER = """#!/bin/sh
case " $* " in
*" -config "*) cat {dir}/routes.out; cat {dir}/routes.err >&2; [ ! -s {dir}/routes.err ]; exit ;;
*" -diagnostic "*)
    while [ "$1" != -jobads ]; do shift; done
    cat "$2" "$CONDOR_CONFIG" >>{dir}/applied
    cat {dir}/applied.out; cat {dir}/applied.err >&2
    exit ;;
esac
cat >{dir}/jobs
cp "$CONDOR_CONFIG" {dir}/routes
[ ! -e {dir}/broken ] || {{ echo broken; exit 1; }}
printf '\\nMatching jobs against routes to find candidate jobs.\\nsubmit_job as lab@ to local pool:local:\\n'
printf 'BatchQueue = "a = b"\\nGridResource = "batch slurm"\\nNumRestarts = 0\\n'
printf 'RouteName = "main"\\nRoutedFromJobId = "2.0"\\n\\n'
"""
ROUTES = """DAEMON_LIST = MASTER SCHEDD JOB_ROUTER
JOB_ROUTER_ROUTE_main @=route
\tREQUIREMENTS VO == 1 && \\
\t  true
  MaxJobs = 1
  maxidlejobs=1
\tevalset BatchQueue queue
@route
"""
# Prints a token that expires after $6 seconds.
MINT = """#!/bin/sh
echo "$*" >{dir}/minted
printf 'e30.%s.c2ln\n' "$(printf '{{"exp":%d}}' $(($(date +%s) + $6)) | base64 -w 0)"
"""
# An IDTOKEN's form: the payload has no padding.
TOKEN = "e30." + base64.urlsafe_b64encode(b'{"exp":1798000710,"iat":1795408728}').decode().rstrip("=") + ".c2ln"


def wait(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Gateway:
    """A gateway whose daemons are shell scripts."""

    def __init__(self, home, name="lab"):
        self.home = home
        self.dir = home / "gateways" / name
        self.dir.mkdir(parents=True)
        shutil.copy(str(ROOT / "files/gateway/gateway.sh"), str(self.dir / "gateway"))
        (self.dir / "gateway").chmod(0o700)
        (self.dir / "condor_config").write_text(f'GLIDEIN_Site = "{name}"\n')
        (self.dir / "blah.config.site").write_text("slurm_binpath=/opt/slurm\nnew=1\n")
        self.pack("one")

    def pack(self, name):
        """Make a tarball of a release."""
        tree = self.home / name
        shutil.rmtree(str(tree), ignore_errors=True)
        write_program(tree / "sbin/condor_master", MASTER.format(dir=self.dir))
        write_program(tree / "bin/condor_q", QUEUE)
        write_program(tree / "bin/condor_job_router_info", ROUTER.format(dir=self.dir))
        write_program(tree / "bin/condor_token_create", MINT.format(dir=self.dir))
        write_program(tree / "bin/blahpd", SSH_PROGRAM)
        write_program(tree / "sbin/condor_ft-gahp", SSH_PROGRAM)
        write_program(tree / "etc/blah.config", "# comment\nslurm_binpath=/usr/bin\npbs_pro=no\n")
        (tree / "MANIFEST.json").write_text('{\n "htcondor": "23.9.6",\n "arch": "x86_64"\n}\n')
        files = [path for path in sorted(tree.rglob("*")) if path.is_file()]
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files]
        (tree / "SHA256SUMS").write_text("".join(sums))
        with tarfile.open(str(self.home / f"{name}.tar.gz"), "w:gz") as tar:
            tar.add(str(tree), ".")

    def __call__(self, *arguments, rc=0, stdin=None, **variables):
        environment = {
            **variables,
            "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LD_LIBRARY_PATH": "/opt/secret",
        }
        done = run_program([str(self.dir / "gateway"), *arguments], environment, stdin, rc)
        return done.stdout + done.stderr

    def unpack(self, name):
        self("unpack", name, str(self.home / f"{name}.tar.gz"))

    def state(self):
        return dict(line.split(" ", 1) for line in self("status").splitlines())

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

    def kill(self):
        """End the processes of the gateway; some end by themselves meanwhile."""
        for pid in self.masters():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture()
def gateway(tmp_path):
    made = Gateway(tmp_path)
    made.unpack("one")
    yield made
    made.kill()


def test_a_login_environment_has_no_influence(gateway):
    """A relative call with CDPATH would find two directories."""
    environment = {
        "PATH": f"{gateway.home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(gateway.home),
        "CDPATH": f".:{gateway.home}",
        "GREP_OPTIONS": "-v",
        "GZIP": "--verbose",
        "TAR_OPTIONS": "--to-stdout",
    }
    command = f"cd '{gateway.dir.parent}' && '{gateway.dir.name}/gateway' unpack two '{gateway.home}/one.tar.gz'"
    run_program(["sh", "-c", command], environment)
    assert (gateway.dir / "release/sbin/condor_master").is_file()


def test_keep_starts_a_gateway_that_does_not_run(gateway):
    gateway("keep")
    wait(gateway.masters)
    first = gateway.masters()
    gateway("keep")  # as cron does
    time.sleep(0.3)
    assert gateway.masters() == first
    gateway.kill()
    wait(lambda: not gateway.masters())
    gateway("keep")
    wait(gateway.masters)


def test_the_daemons_get_a_clean_environment(gateway):
    gateway("keep")
    environment = gateway.dir / "environment"
    wait(lambda: environment.exists() and "CONDOR_CONFIG" in environment.read_text())
    names = {line.partition("=")[0] for line in environment.read_text().splitlines()} - {"PWD", "_", "SHLVL"}
    assert names == {
        *("HOME", "USER", "LOGNAME", "LANG", "PATH", "CONDOR_CONFIG", "BLAHPD_CONFIG_LOCATION", "GLIDEIN_GATEWAY")
    }


def test_the_end_of_a_gateway_leaves_another_one_of_the_user_as_it_is(gateway):
    other = Gateway(gateway.home, "other")
    other.unpack("one")
    for one in (gateway, other):
        one("keep")
        wait(one.masters)
    before = other.masters()
    gateway("stop", "removed")
    assert gateway.masters() == []
    assert other.masters() == before


def test_systemd_restarts_its_gateway_by_itself(gateway):
    units = gateway.home / ".config/systemd/user"
    units.mkdir(parents=True)
    (units / "glidein-gateway-lab.service").touch()
    gateway("keep")
    wait(gateway.masters)
    assert gateway.state()["supervisor"] == "systemd"
    write_program(gateway.home / "bin/systemctl", f'#!/bin/sh\necho "$*" >{gateway.home}/started\n')
    gateway("restart")
    time.sleep(0.3)
    assert gateway.masters() == []
    # A unit that is not active is started.
    assert (gateway.home / "started").read_text() == "--user start glidein-gateway-lab.service\n"
    write_program(gateway.home / "bin/systemctl", "#!/bin/sh\nexit 1\n")
    assert "systemd cannot start glidein-gateway-lab.service" in gateway("restart", rc=1)


@pytest.mark.parametrize(
    "site, settings",
    [
        ("slurm_binpath=/opt/slurm\nnew=1\n", "pbs_pro=no\nblah_child_poll_timeout=200\n"),
        ("blah_child_poll_timeout=60\n", "slurm_binpath=/usr/bin\npbs_pro=no\n"),
    ],
)
def test_the_site_replaces_settings_of_blahp(gateway, site, settings):
    (gateway.dir / "blah.config.site").write_text(site)
    gateway("keep")
    config = gateway.dir / "blah.config"
    wait(config.exists)
    # Python's parser of this file refuses a setting that is there twice.
    assert config.read_text() == f"# comment\n{settings}{site}"


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


def test_the_submitters_token_is_renewed_before_it_expires(gateway):
    assert gateway("token", "864000", "432000").strip() == "changed"
    token, key = gateway.dir / "submit-token", gateway.dir / "passwords.d/POOL"
    assert "@gateway-lab -lifetime 864000 -authz READ -authz WRITE" in (gateway.dir / "minted").read_text()
    assert len(key.read_bytes()) == 64
    assert {path.stat().st_mode & 0o777 for path in (token, key)} == {0o600}
    assert gateway("token", "864000", "432000") == ""
    assert gateway("token", "864000", "863000") == ""
    assert gateway("token", "864000", "864001").strip() == "changed"


def test_a_renewal_stores_the_pools_token_and_prints_the_submitters(gateway):
    tokens = gateway.dir / "tokens.d"
    tokens.mkdir(mode=0o700)
    (tokens / "pool").write_text("old")
    printed, changed = gateway("renew", "864000", "432000", stdin="new\n").splitlines(keepends=True)
    assert (printed, changed) == ((gateway.dir / "submit-token").read_text(), "changed\n")
    assert [path.name for path in tokens.iterdir()] == ["pool"]
    assert (tokens / "pool").read_text() == "new\n"
    assert (tokens / "pool").stat().st_mode & 0o777 == 0o600
    assert gateway("renew", "864000", "432000", stdin="new\n") == printed
    assert "no token on standard input" in gateway("renew", "864000", "432000", stdin="", rc=1)
    assert (tokens / "pool").read_text() == "new\n"


@pytest.mark.parametrize("name, found", [("lab", "cron"), ("other", "none"), ("lab2", "none")])
def test_cron_keeps_a_gateway_alive_if_the_crontab_has_it(gateway, name, found):
    line = f"* * * * * {gateway.dir.with_name(name)}/gateway keep"
    write_program(gateway.home / "bin/crontab", f"#!/bin/sh\n[ $1 != -l ] || echo '{line}'\n")
    assert gateway.state()["supervisor"] == found


def test_status_counts_jobs(gateway):
    write_program(gateway.home / "bin/crontab", "#!/bin/sh\nexit 1\n")
    assert gateway.state() == {"version": "23.9.6", "state": "stopped", "supervisor": "none"}
    gateway("keep")
    wait(gateway.masters)
    jobs = {"idle": "2", "running": "2", "held": "1", "unrouted": "1"}
    assert gateway.state() == {"version": "23.9.6", "state": "running", "supervisor": "none", **jobs}
    assert gateway("unfinished").strip() == "2"
    lines = gateway("attributes").splitlines()
    assert lines == ["JobsIdle = 2", "JobsRunning = 2", "JobsHeld = 1", "- update:true"]


@pytest.mark.parametrize("changed", ["condor_config", "blah.config.site", "gateway", "release"])
def test_a_gateway_is_stale_until_it_is_started_with_the_current_configuration(gateway, changed):
    gateway("keep")
    wait(gateway.masters)
    assert "stale" not in gateway.state()
    if changed == "release":
        gateway.pack("two")
        gateway.unpack("two")
    else:
        with (gateway.dir / changed).open("a") as handle:
            handle.write("# changed\n")
    assert gateway.state()["stale"] == "yes"
    before = gateway.masters()
    gateway("restart")
    wait(lambda: gateway.masters() and not set(gateway.masters()) & set(before))
    assert "stale" not in gateway.state()
    # One that does not run reads the configuration when it starts.
    gateway("stop", "by hand")
    (gateway.dir / "condor_config").write_text("")
    assert "stale" not in gateway.state()


def test_status_has_the_expiry_times_of_tokens(gateway):
    (gateway.dir / "tokens.d").mkdir()
    (gateway.dir / "tokens.d/pool").write_text(TOKEN + "\n")
    (gateway.dir / "submit-token").write_text("no token\n")
    found = gateway.state()
    assert (found.get("pool_token_ends"), found.get("submit_token_ends")) == ("1798000710", None)


def test_a_stopped_gateway_is_not_started_by_cron_but_after_an_installation(gateway):
    gateway("keep")
    wait(gateway.masters)
    gateway("stop", 'maintenance of "node\\1":\n\x1bidle 7')
    assert gateway.masters() == []
    found = gateway.state()
    assert (found["state"], found["reason"]) == ("stopped", 'maintenance of "node\\1":  idle 7')
    assert "idle" not in found
    for command in ("keep", "restart", "run"):
        gateway(command)
    time.sleep(0.3)
    assert gateway.masters() == []
    (gateway.dir / "stopped").unlink()  # as the role does
    gateway("restart")
    wait(gateway.masters)
    assert "reason" not in gateway.state()


def test_a_gateway_whose_queue_is_empty_for_long_stops_itself(gateway):
    gateway("keep")
    wait(gateway.masters)
    write_program(gateway.dir / "release/bin/condor_q", "#!/bin/sh\n")
    gateway("attributes", "3600")
    idle = gateway.dir / "idle"
    half_an_hour_ago = time.time() - 1800
    os.utime(str(idle), (half_an_hour_ago, half_an_hour_ago))
    gateway("attributes", "3600")
    gateway("attributes", "0")
    assert gateway.state()["state"] == "running"
    write_program(gateway.dir / "release/bin/condor_q", QUEUE)
    gateway("attributes", "3600")
    assert not idle.exists()
    # The received job of a routed pilot waits until the access point has fetched its output.
    write_program(gateway.dir / "release/bin/condor_q", '#!/bin/sh\necho "false 4"\n')
    gateway("attributes", "3600")
    assert not idle.exists()
    write_program(gateway.dir / "release/bin/condor_q", "#!/bin/sh\n")
    idle.write_text("")
    os.utime(str(idle), (1795320012, 1795320012))
    gateway("attributes", "3600")
    wait(lambda: not gateway.masters())
    assert gateway.state()["reason"] == "idle since 2026-11-22 04:00:12 UTC"


def test_a_queue_that_cannot_be_read_is_not_an_empty_one(gateway):
    gateway("keep")
    wait(gateway.masters)
    write_program(gateway.dir / "release/bin/condor_q", "#!/bin/sh\nexit 1\n")
    gateway("attributes", "1", rc=1)
    assert not (gateway.dir / "idle").exists()
    assert gateway.state()["state"] == "unresponsive"
    assert "the queue cannot be read: restart the gateway" in gateway("unfinished", rc=1)
    gateway("stop", "its jobs are given up")
    assert gateway("unfinished").strip() == "0"


def test_jobs_are_cancelled_when_the_queue_was_read_and_is_empty(gateway):
    """Use a schedd that does not answer at first, because it removes jobs."""
    reads = gateway.dir / "reads"
    write_program(gateway.dir / "release/bin/condor_rm", "#!/bin/sh\n")
    answers = "case $(wc -l <{0}) in 1) exit 1 ;; 2) echo 7 ;; esac".format(reads)
    write_program(gateway.dir / "release/bin/condor_q", f"#!/bin/sh\necho >>{reads}\n{answers}\n")
    gateway("cancel")
    assert len(reads.read_text().splitlines()) == 3


def cancelled(gateway, squeue, condor_q):
    """Return the batch jobs that `attributes` cancels. squeue, condor_q: commands that print the two lists."""
    (gateway.dir / "blah.config").write_text(f"sge_cellname=$SGE_CELL\nslurm_binpath={gateway.home}/slurm\n")
    done = gateway.home / "cancelled"
    write_program(gateway.home / "slurm/squeue", f"#!/bin/sh\n{squeue}")
    write_program(gateway.home / "slurm/scancel", f'#!/bin/sh\necho "$@" >>{done}\n')
    condor_q = f'#!/bin/sh\ncase "$*" in *GridJobId*)\n{condor_q};;\n*) echo 1;; esac\n'
    write_program(gateway.dir / "release/bin/condor_q", condor_q)
    gateway("attributes", "0")
    return done.read_text().split() if done.exists() else []


def test_only_untracked_batch_jobs_in_the_spool_are_cancelled(gateway):
    spool = f"{gateway.dir}/local/spool"
    batch = {
        1: f"{spool}/1/0/cluster1.proc0.subproc0",  # tracked
        2: f"{spool}/2/0/cluster2.proc0.subproc0",  # held: blahp ended sbatch
        3: f"{spool}/3/0/cluster3.proc0.subproc0",  # being submitted
        4: f"{spool}/4/0/cluster4.proc0.subproc0",  # its pilot has been removed
        5: f"{spool}/1/0/cluster1.proc0.subproc0",  # of an earlier submission of 1
        6: "/home/user/work",
        11: f"{spool}/6/0/cluster6.proc0.subproc0",  # held for another reason
    }
    queue = [
        f"batch slurm lab_1.0_5 slurm/20261123/1 false {batch[1]}",
        f"none true {batch[2]}",
        f"none false {batch[3]}",
        f"batch slurm lab_6.0_5 slurm/20261123/11 true {batch[11]}",
    ]
    listed = "".join(f"echo {number} {place}\n" for number, place in batch.items())
    notice = f"echo CLUSTER: lab\necho '*** {gateway.dir} is full ***'\n"
    rows = "".join(f"echo '{line}'\n" for line in queue)
    assert cancelled(gateway, notice + listed, rows) == ["2", "4", "5"]
    assert f"cancelled the untracked job 2 of {batch[2]}" in (gateway.dir / "gateway.log").read_text()


@pytest.mark.parametrize("broken", ["squeue", "condor_q", "awk"])
def test_no_batch_job_is_cancelled_if_a_list_cannot_be_read(gateway, broken):
    lists = {"squeue": f"echo 2 {gateway.dir}/local/spool/2\n", "condor_q": "true\n"}
    if broken == "awk":
        # As on a login node on which the user's process limit is reached.
        write_program(gateway.home / "bin/awk", "#!/bin/sh\nexit 2\n")
    assert cancelled(gateway, **{**lists, **({broken: "exit 1\n"} if broken in lists else {})}) == []


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no /dev/full")
def test_a_spool_without_space_is_a_problem_that_names_its_file_system(gateway):
    spool = gateway.dir / "local/spool"
    spool.mkdir(parents=True)
    assert "problem" not in gateway.state()
    (spool / ".space").symlink_to("/dev/full")
    problem = gateway.state()["problem"]
    assert problem.startswith(f"{spool}: No space left on device (file system /")


@pytest.fixture()
def routes(gateway):
    gateway.unpack("one")
    with (gateway.dir / "condor_config").open("a") as handle:
        handle.write(ROUTES)
    return gateway


def test_route_prints_the_route_of_each_job_and_what_routes_set(routes):
    printed = routes("route", stdin='VO = "x"\nProcId = 0\n\nxcount = 2\n')
    assert printed == 'job 1: no route\njob 2: route main\n  BatchQueue = "a = b"\n  GridResource = "batch slurm"\n'
    jobs = (routes.dir / "jobs").read_text().split("\n\n")
    assert jobs[0].splitlines()[:3] == ['VO = "x"', "ProcId = 0", "JobUniverse = 5"]
    assert "ClusterId = 2" in jobs[1].splitlines()


def test_route_does_not_apply_the_limits_of_routes(routes):
    routes("route", stdin="xcount = 1\n")
    used = (routes.dir / "routes").read_text()
    assert "max" not in used.lower() and "evalset BatchQueue" in used
    assert "MaxJobs = 1" in (routes.dir / "condor_config").read_text()
    assert [path.name for path in routes.dir.glob("condor_config*")] == ["condor_config"]


def test_route_reads_a_file(routes, tmp_path):
    (tmp_path / "jobs").write_text("xcount = 1\n")
    assert routes("route", str(tmp_path / "jobs")) == "job 1: no route\n"


def test_route_reports_errors(routes):
    assert "expected ClassAds, separated by empty lines" in routes("route", stdin="", rc=1)
    (routes.dir / "broken").touch()
    assert "condor_job_router_info failed: broken" in routes("route", stdin="a = 1\n", rc=1)
    (routes.dir / "condor_config").write_text("")
    assert "the gateway has no routes (glidein_gateway_routes)" in routes("route", stdin="a = 1\n", rc=1)


# What condor_job_router_info 23.9.6 prints with -diagnostic -config.
ACCEPTED = """\
Following source schedd (SCHEDD1): job_router_info
route main converted to :
\tNAME main
\tSET Note "ERROR: none"
Note: adding new route '[ Name = "main"; GridResource = "batch slurm"; TargetUniverse = 9 ]'
Routes will be matched in this order: main, other


Route 1
Name         : "main"
"""
UNKNOWN_COMMAND = """\
route a is not valid: SETT is not a valid transform keyword


CONFIGURATION ERROR: SETT is not a valid transform keyword

Ignoring route entry in JOB_ROUTER_ROUTE_a
route 'a' from JOB_ROUTER_ROUTE_NAMES not found in the routing table.
Routes will be matched in this order:
"""
DISABLED = "JobRouter is disabled."
NOT_FOUND = "route 'a' from JOB_ROUTER_ROUTE_NAMES not found in the routing table."
LINE_2 = "Configuration Error Line 2 while reading global config source /x/condor_config"
NO_CONDITION = "$(X) is not a valid if condition because expression is not a conditional"


@pytest.fixture()
def checked(routes):
    """Return a function that checks ROUTES; HTCondor's tool prints the given texts, and returns what check prints."""

    def check(out=ACCEPTED, err="", applied_out="", applied_err="", rc=1):
        files = {"routes.out": out, "routes.err": err, "applied.out": applied_out, "applied.err": applied_err}
        for name, text in files.items():
            (routes.dir / name).write_text(text and f"{text}\n")
        before = sorted(routes.dir.iterdir())
        printed = routes("check", stdin=ROUTES, rc=rc)
        assert set(routes.dir.iterdir()) - set(before) <= {routes.dir / "applied"}
        return printed.splitlines()

    return check


def test_check_applies_each_route_to_a_job_without_its_requirements(routes, checked):
    assert checked(rc=0) == []
    applied = (routes.dir / "applied").read_text()
    assert applied.count("JobUniverse = 5\n") == 2
    assert applied.count("\tSET GatewayRequirements VO == 1 && \\\n\t  true\n  MaxJobs = 1\n") == 2
    for name in ("main", "other"):
        assert f"\nJOB_ROUTER_ROUTE_NAMES = {name}\nJOB_ROUTER_SOURCE_JOB_CONSTRAINT = true\n" in applied


@pytest.mark.parametrize(
    ("out", "err", "message"),
    [
        (UNKNOWN_COMMAND, "", ["CONFIGURATION ERROR: SETT is not a valid transform keyword", NOT_FOUND]),
        (f"{NOT_FOUND}\n{ACCEPTED}", "", [NOT_FOUND]),
        ("ERROR: JOB_ROUTER_TRANSFORM_t not found", DISABLED, [DISABLED, "ERROR: JOB_ROUTER_TRANSFORM_t not found"]),
        ("JOB_ROUTER_TRANSFORM_t load error: no", DISABLED, [DISABLED, "JOB_ROUTER_TRANSFORM_t load error: no"]),
        ("WARNING: none of JOB_ROUTER_ROUTE_NAMES", DISABLED, [DISABLED, "WARNING: none of JOB_ROUTER_ROUTE_NAMES"]),
        ("", f"{LINE_2}\n{NO_CONDITION}", [LINE_2, NO_CONDITION, "line 2: JOB_ROUTER_ROUTE_main @=route"]),
    ],
)  # fmt: skip
def test_check_reports_what_htcondor_does_not_accept(checked, out, err, message):
    assert checked(out, err) == ["gateway: HTCondor refuses the routes:", *message]


@pytest.mark.parametrize(
    ("out", "err", "message"),
    [
        ("", "ERROR: SET a invalid expression : 1 +", ["ERROR: SET a invalid expression : 1 +"]),
        (
            "failure in pre-route transform t: SETT is not a valid transform keyword",
            "Transform of ad  failed!",
            ["Transform of ad  failed!", "failure in pre-route transform t: SETT is not a valid transform keyword"],
        ),
    ],
)
def test_check_reports_once_what_fails_when_a_route_is_applied(checked, out, err, message):
    assert checked(applied_out=out, applied_err=err)[1:] == message


def test_check_fails_if_the_tool_does(routes, checked):
    write_program(routes.dir / "release/bin/condor_job_router_info", "#!/bin/sh\nexit 5\n")
    assert checked()[1:] == ["condor_job_router_info failed: exit status 5"]


def test_an_unknown_command_is_an_error(gateway):
    assert "expected run, keep" in gateway("what", rc=1)


# --- without a schedd

GLITE = "BLAHPD_LOCATION=~/d GLITE_LOCATION=~/d ~/d"


@pytest.fixture()
def by_ssh(gateway):
    (gateway.dir / "condor_config").write_text('# BY_SSH\nGLIDEIN_Site = "lab"\n')
    return gateway


def test_the_access_point_starts_blahpd_with_a_clean_environment(by_ssh):
    output = by_ssh("ssh", SSH_ORIGINAL_COMMAND=f"/bin/bash -l -c '{GLITE}/bin/blahpd '")
    assert output.startswith("blahpd \n")
    names = {line.partition("=")[0] for line in output.splitlines()[1:]} - {"PWD", "_", "SHLVL"}
    assert names == {
        *("HOME", "USER", "LOGNAME", "LANG", "PATH", "GLIDEIN_GATEWAY"),
        *("BLAHPD_CONFIG_LOCATION", "BLAHPD_LOCATION", "GLITE_LOCATION"),
    }
    assert "slurm_binpath=/opt/slurm" in (by_ssh.dir / "blah.config").read_text()


def test_the_access_point_starts_the_file_transfer_and_reads_the_port_of_its_tunnel(by_ssh):
    command = "echo Allocated port 40123 for remote forward to 1>&2 ; CONDOR_CONFIG=~/d/x ~/d/bin/condor_ft-gahp -f "
    output = by_ssh("ssh", SSH_ORIGINAL_COMMAND=f"/bin/bash -l -c '{command}'")
    assert output.startswith("condor_ft-gahp -f\n")
    assert "Allocated port 40123 for remote forward to" in output.splitlines()
    assert f"CONDOR_CONFIG={by_ssh.dir}/condor_config" in output.splitlines()


@pytest.mark.parametrize("command", ["id", "", "/bin/bash -c '~/d/bin/blahpd; id'", "scp -t x", "cancel"])
def test_the_access_point_starts_nothing_else(by_ssh, command):
    assert "starts only HTCondor's blahpd and condor_ft-gahp" in by_ssh("ssh", rc=1, SSH_ORIGINAL_COMMAND=command)


def test_a_command_is_not_run_but_read(by_ssh):
    output = by_ssh("ssh", SSH_ORIGINAL_COMMAND="touch $HOME/made; ~/d/bin/blahpd '$(touch $HOME/made)'")
    assert output.startswith("blahpd \n")
    assert not (by_ssh.home / "made").exists()


def test_status_counts_the_directories_of_jobs(by_ssh):
    assert by_ssh.state() == {"state": "installed", "version": "23.9.6", "jobs": "0"}
    assert by_ssh("unfinished").strip() == "0"
    (by_ssh.dir / "sandbox/de04/de04dbba/cm_cm_3.0_1795409311/lib").mkdir(parents=True)
    (by_ssh.dir / "sandbox/de04/de04dbba/cm_cm_3.1_1795409311").mkdir()
    assert by_ssh("ssh", SSH_ORIGINAL_COMMAND="status").splitlines()[-1] == "jobs 2"
    assert by_ssh("unfinished").strip() == "2"
