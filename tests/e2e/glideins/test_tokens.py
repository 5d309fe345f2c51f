# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a site's token: deployed without a copy elsewhere, renewed under a running glidein, and revoked."""

import re
import subprocess
import time

import pytest
from conftest import STATE, add_sites, playbook, wait_for
from holder import GLIDEINS_MAY, Holder
from site_deployment import deploy_sites

ENTRIES = {
    "cpu": {
        "queue": "cpu",
        "walltime": "1h",
        "idle_timeout": "30m",
        "priority": 10,
        "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 1000}},
        "limits": {"queued": 1, "total": 1, "per_cycle": 1},
    }
}
OTHER = {"ansible_host": "slurm", "glidein_entries": ENTRIES}

# Runs on a host during a deployment, until FLAG is removed. It records the arguments and environment of every process,
# and prints directories, and token files in them, that other users could read at any time.
WATCHER = """\
import glob, os, sys, time
flag, out, roots = sys.argv[1], sys.argv[2], sys.argv[3:]
seen, open_to_others = set(), set()
while os.path.exists(flag):
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as handle:
                seen.add(handle.read())
        except OSError:
            pass
    names = [root + name for root in roots for name in ("/tokens/*", "/*/*credential*", "/*/.*credential*")]
    tokens = [path for name in names for path in glob.glob(name)]
    for path in roots + tokens:
        try:
            if os.lstat(path).st_mode & 0o077:
                open_to_others.add(path)
        except OSError:
            pass
    time.sleep(0.1)
with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
    handle.write(b"\\n".join(seen))
print(len(seen), *sorted(open_to_others))
"""
ROOTS = {
    "cm": "/var/lib/glidein-ops /etc/condor/tokens.d /etc/condor/passwords.d",
    "slurm-root": "/home/glidein/.glidein /home/glidein/.ansible/tmp",
}
FLAG = "/root/watching"
SEEN = "/root/seen"
PATTERNS = "/root/patterns"


def ssh(alias, command, stdin=None):
    """Return the output of a command run as root on a host of the lab."""
    argv = ["ssh", "-F", str(STATE / "ssh_config"), "-o", "BatchMode=yes", alias, f"sudo sh -c '{command}'"]
    if alias.endswith("-root"):
        argv[-1] = command
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=600, check=True).stdout.strip()


def logged(words):
    """Return a command that prints log lines with these words from glideins of `slurm` since ~/mark was touched."""
    return f"find ~/.glidein/slurm/log -name '*.out' -newer ~/mark -exec grep -h '{words}' {{}} +; true"


class Watch:
    """A watcher on each host."""

    def __init__(self):
        self.running = {}

    def __enter__(self):
        for alias, roots in ROOTS.items():
            ssh(alias, f"rm -f {SEEN} {PATTERNS}; cat > {FLAG}", WATCHER)
            command = f"exec python3 {FLAG} {FLAG} {SEEN} {roots}"
            argv = ["ssh", "-F", str(STATE / "ssh_config"), alias]
            argv.append(command if alias.endswith("-root") else f"sudo sh -c '{command}'")
            self.running[alias] = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        return self

    def __exit__(self, *failure):
        for alias in ROOTS:
            ssh(alias, f"rm -f {FLAG}")
        self.said = {alias: process.communicate(timeout=600)[0].split() for alias, process in self.running.items()}


@pytest.fixture(scope="module")
def inventories(tmp_path_factory):
    """Return {revoked: the lab's inventory with a second site on the same login node, revoked or not}."""
    both = {}
    for revoked in (False, True):
        folder = tmp_path_factory.mktemp("revoked" if revoked else "trusted")
        both[revoked] = add_sites(folder, {"other": dict(OTHER, glidein_revoked=revoked)})
    return both


@pytest.fixture
def thief(cm, alice):
    holder = Holder(cm, alice)
    yield holder
    holder.drop()


def test_a_deployment_exposes_no_secret(inventories, cm, slurm):
    cm.check_output("rm -f /var/lib/glidein-ops/tokens/other; touch /root/mark")
    ssh("slurm-root", "rm -rf /home/glidein/.glidein/other; touch /root/mark")
    began = time.time()
    with Watch() as watch:
        tags = "tokens,server,sites"
        arguments = ("-l", "cm,other", "--tags", tags, "-vvv", "--diff")
        deploy = playbook("deploy", *arguments, inventory=inventories[False])
    assert deploy.rc == 0, deploy.output[-3000:]

    token = cm.check_output("cat /var/lib/glidein-ops/tokens/other")
    assert slurm.check_output("cat ~/.glidein/other/credential") == token
    secrets = {
        "the token": token,
        "its signature": token.rsplit(".", 1)[1],
        "the demand token": (STATE / "demand_tokens" / "other").read_text(encoding="ascii").strip(),
    }
    assert [what for what, secret in secrets.items() if secret in deploy.output] == []
    for alias in ROOTS:
        count, *open_to_others = watch.said[alias]
        assert int(count) > 20
        assert open_to_others == []
        ssh(alias, f"umask 077; cat > {PATTERNS}", "\n".join(secrets.values()) + "\n")
        # grep ends with 0 if it finds a secret; the file with it then stays for analysis.
        assert ssh(alias, f"grep -acFf {PATTERNS} {SEEN} || true") == "0"
        assert ssh(alias, f"journalctl --since=@{int(began)} -o cat | grep -acFf {PATTERNS} || true") == "0"
        readable = "find / -xdev ( -path /proc -o -path /sys ) -prune -o -type f -newer /root/mark -perm /044 -print0"
        readable = readable.replace("(", "\\(").replace(")", "\\)")
        assert ssh(alias, f"{readable} | xargs -0r grep -laFf {PATTERNS} || true") == ""
        ssh(alias, f"rm -f {PATTERNS} {SEEN}")
    cache = [path for path in (STATE / "cache").rglob("*") if path.stat().st_mode & 0o077]
    assert cache == []


def test_a_revoked_site_loses_its_glideins_and_the_others_go_on(
    inventories, cm, alice, server, slurm, slurm_root, thief
):
    """Revoke the site although its startd ignores the request and has a security session."""
    deploy_sites(inventories[False], "other")
    cluster = alice.submit(count=2, seconds=7200)
    server.wait_for_jobs(2)
    cycle = playbook("cycle", inventory=inventories[False])
    whose = "condor_status -constraint 'PartitionableSlot =!= true' -af AuthenticatedIdentity"
    both = ["glidein-other@cm", "glidein-slurm@cm"]
    wait_for("a job at each site", lambda: sorted(cm.check_output(whose).split()) == both)
    hosts = "condor_q -all -af JobStatus RemoteHost JobCurrentStartDate"
    wait_for("both jobs", lambda: [line.split()[0] for line in cm.check_output(hosts).splitlines()] == ["2", "2"])
    before = cm.check_output(hosts).splitlines()
    daemons = slurm_root.check_output("pgrep -x condor_startd").split()
    # The node's processes have no token in their arguments or environment, and cannot write a core file.
    token = cm.check_output("cat /var/lib/glidein-ops/tokens/other")
    ssh("slurm-root", f"umask 077; cat > {PATTERNS}", token)
    found = slurm_root.check_output(f"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -acFf {PATTERNS}; true")
    assert found == "0"
    for pid in daemons:
        assert slurm_root.check_output(f"awk '/^Max core file size/ {{print $5}}' /proc/{pid}/limits") == "0"
    thief.steal("/var/lib/glidein-ops/tokens/other", "old")
    assert thief.allowed("collector") == GLIDEINS_MAY
    # A frozen master does not stop its startd, whose security session stays valid.
    slurm_root.check_output(
        "for pid in $(pgrep -x condor_master); do "
        "if tr '\\0' '\\n' </proc/$pid/environ | grep -qx GLIDEIN_SITE=other; then kill -STOP $pid; fi; done"
    )
    try:
        check = playbook("revoke", "--check", inventory=inventories[True])
        assert "other is revoked: 1 machines would be removed, 1 jobs would be taken back." in check.output, check
        revoke = playbook("revoke", inventory=inventories[True])
        assert revoke.rc == 0, revoke
        assert "other is revoked: 1 machines were removed, 1 jobs taken back." in revoke.output
        kinds = ("", "-startd", "-master")
        glideins = "-constraint 'regexp(\"^glidein-\", AuthenticatedIdentity)' -af AuthenticatedIdentity"
        left = [cm.check_output(f"condor_status {kind} {glideins}") for kind in kinds]
        assert [set(text.split()) for text in left] == [{"glidein-slurm@cm"}] * 3, revoke
        again = playbook("revoke", inventory=inventories[True])
        assert (again.rc, again.recap["cm"]["changed"]) == (0, 0), again
        # One job is idle again; the other has continued unchanged.
        now = cm.check_output(hosts).splitlines()
        assert sorted(line.split()[0] for line in now) == ["1", "2"]
        assert [line for line in now if line in before] == [line for line in now if line.startswith("2 ")]
        assert not thief.allowed("collector") & GLIDEINS_MAY
        # The cycle orders nothing for the site, and the server refuses the site's token.
        assert not re.search(r"^other ", playbook("cycle", inventory=inventories[True]).summary, re.MULTILINE)
        own = (STATE / "demand_tokens" / "other").read_text(encoding="ascii").strip()
        assert "error" in server.call("lease", {"site": "other", "entries": {}, "ttl_s": 60}, token=own), cycle
    finally:
        slurm_root.check_output("pkill -CONT -x condor_master; true")

    # Without `revoked` in the inventory, the site gets a new token; the stolen one stays revoked.
    deploy_sites(inventories[False], "other", tags="revocation,tokens,sites")
    assert not thief.allowed("collector") & GLIDEINS_MAY
    thief.steal("/var/lib/glidein-ops/tokens/other", "old")
    assert thief.allowed("collector") == GLIDEINS_MAY
    assert slurm.check_output("cat ~/.glidein/other/credential") == cm.check_output(
        "cat /var/lib/glidein-ops/tokens/other"
    )
    assert f"{cluster} " in cm.check_output("condor_q -all -af ClusterId ProcId")


def test_a_token_renewed_by_a_cycle_and_rotated_keeps_a_running_glidein_when_the_collector_restarts(
    more_sites, alice, cm, server, slurm, thief, finish_file
):
    slurm.check_output("touch ~/mark")
    first = alice.submit(seconds=finish_file.seconds)
    second = alice.submit()
    server.wait_for_jobs(2)
    life_s = 180  # until the glidein has registered
    short = cm.check_output(
        f"condor_token_create -identity glidein-slurm@cm -lifetime {life_s} -authz ADVERTISE_MASTER "
        "-authz ADVERTISE_STARTD"
    )
    ends = time.time() + life_s
    ssh("slurm-root", "cat > /home/glidein/.glidein/slurm/credential", short + "\n")
    # One glidein runs both jobs, one after the other in the same claim, so its startd updates its ad again.
    cycle = playbook("cycle", "-e", '{"glidein_limits": {"total": 1}}')
    assert "its token expires at" in cycle.summary
    named = "condor_status -constraint PartitionableSlot -af Name"
    name = wait_for("the glidein", lambda: cm.check_output(named))

    asked_for = more_sites({"slurm": {"glidein_renew": True}})
    renewing = playbook("cycle", "-e", '{"glidein_limits": {"total": 1}}', inventory=asked_for)
    assert (renewing.rc, renewing.recap["slurm"]["changed"]) == (0, 1), renewing
    thief.steal("/var/lib/glidein-ops/tokens/slurm", "old")
    rotate = playbook("rotate", "-e", "rotate=tokens,signing_key")
    assert (rotate.rc, rotate.recap["slurm"]["changed"]) == (0, 1), rotate
    token = slurm.check_output("cat ~/.glidein/slurm/credential")
    assert token not in rotate.output
    # Both keys are valid until the rotation is finished. Finishing is refused while glideins may have the old token.
    assert thief.allowed("collector") == GLIDEINS_MAY
    slurm.check_output("touch ~/.glidein/slurm/credential")
    early = playbook("rotate", "-e", "rotate_finish=true")
    assert early.rc != 0 and "Nothing was withdrawn" in " ".join(early.output.split()), early
    copied = "cat /tmp/glidein.*/credential/tokens.d/token"
    wait_for("the renewal", lambda: slurm.check_output(copied) == token, 400)
    assert "credential renewed" in slurm.check_output(logged("credential renewed"))
    slurm.check_output("touch -d '5 minutes ago' ~/.glidein/slurm/credential")
    finish = playbook("rotate", "-e", "rotate_finish=true")
    assert finish.rc == 0, finish
    assert not thief.allowed("collector") & GLIDEINS_MAY
    thief.steal("/var/lib/glidein-ops/tokens/slurm", "old")
    assert thief.allowed("collector") == GLIDEINS_MAY
    wait_for("the end of the first token", lambda: time.time() > ends, 2 * life_s)
    # Submit machines reach the glidein by the collector's CCB.
    registrations = "cat /tmp/glidein.*/log/SharedPortLog* | grep -c 'CCBListener: registered with CCB server'; true"
    before = int(slurm.check_output(registrations))
    cm.check_output("kill -KILL $(pidof condor_collector)")
    wait_for("the glidein in the new CCB", lambda: int(slurm.check_output(registrations)) > before, 600)
    finish_file.create()
    # The new collector has no sessions: a glidein that registers again has authenticated with its new token.
    assert alice.outputs(first) == ['slurm\n"slurm"']
    wait_for("the same glidein", lambda: cm.check_output(named) == name)
    third = alice.submit()
    assert [alice.outputs(cluster) for cluster in (second, third)] == [['slurm\n"slurm"']] * 2
    startd = name.partition("@")[2]
    hosts = cm.check_output("condor_history -limit 3 -af LastRemoteHost").splitlines()
    assert [slot.partition("@")[2] for slot in hosts] == [startd] * 3
    assert cm.check_output(f"condor_history {first} -limit 1 -af NumJobStarts") == "1"


def test_jobs_run_side_by_side_until_a_glidein_retires(more_sites, alice, server, slurm, cm, finish_file):
    # It retires two minutes after its start.
    entry = dict(ENTRIES["cpu"], walltime="1h", retirement="58m", idle_timeout="30m")
    entry["shapes"] = {"two": {"cpus": 2, "memory_mb": 1024, "disk_mb": 1000}}
    # The same site as in the lab's inventory, with another entry, so that it is already deployed.
    inventory = more_sites({"slurm": {"glidein_entries": {"brief": entry}}})
    slurm.check_output("touch ~/mark")
    pair = alice.submit(count=2, seconds=finish_file.seconds)
    server.wait_for_jobs(2)
    cycle = playbook("cycle", inventory=inventory)
    states = "condor_q -all -af JobStatus RemoteHost"
    running = wait_for("both jobs", lambda: _running(cm.check_output(states)))
    assert len({slot.partition("@")[2] for slot in running}) == 1, cycle
    retired = "condor_status -constraint 'PartitionableSlot && time() > GLIDEIN_ToRetire' -af Name"
    wait_for("retirement", lambda: cm.check_output(retired), 400)
    late = alice.submit(seconds=1)
    finish_file.create()
    assert len(alice.outputs(pair, 2)) == 2
    log = wait_for("its end", lambda: slurm.check_output(logged("ended because")))
    assert "it has retired and has no job left" in log
    assert cm.check_output(f"condor_q {late} -af JobStatus") == "1"


def _running(states):
    """Return the slots of two jobs that run at the same time, or None if they do not."""
    rows = [line.split() for line in states.splitlines()]
    return [slot for _status, slot in rows] if [status for status, _slot in rows] == ["2", "2"] else None
