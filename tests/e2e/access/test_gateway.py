# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway on the login node: installed by its playbook, kept alive by cron, and used with Condor-C.

alice submits a pilot by hand, and the site `gateway` of inventories/lab-batch, an access point, submits glideins. The
gateway has routes for pilots without details of the batch system, and for users' jobs. The last tests are of failures.
"""

import json
import re
import textwrap
import time

import pytest
from batch_site import BatchSite, grid_glideins
from conftest import INVENTORY, ROOT, playbook, wait_for
from gateway_lab import HOME, PILOT, ROUTES, VARIABLES, catalogue, gateway_playbook, installed_gateway

SITE = BatchSite("gateway", "gateway", entry="cpu")
LIMIT_S = 400  # on a busy machine
LISTED = "condor_status -schedd -constraint 'is_glidein =?= true' -af Name"


@pytest.fixture(scope="module", autouse=True)
def installed(cm, slurm, slurm_root):
    with installed_gateway(cm, slurm, slurm_root):
        wait_for("the gateway's ad", lambda: cm.check_output(LISTED) == "gateway-slurm@", LIMIT_S)
        yield


def test_the_gateway_is_in_the_pool_and_may_do_nothing_else(cm, slurm):
    named = "condor_status -schedd -constraint 'is_glidein =?= true' -af Name GLIDEIN_Site"
    wait_for("the gateway's ad", lambda: cm.check_output(named) == "gateway-slurm@ slurm", LIMIT_S)
    token = slurm.check_output(f"cut -d. -f2 {HOME}/slurm/tokens.d/pool | tr _- /+ | base64 -di 2>/dev/null; true")
    claims = json.loads(token)
    assert claims["sub"] == "gateway-slurm@cm"
    assert set(claims["scope"].split()) == {f"condor:/{s}" for s in ("ADVERTISE_MASTER", "ADVERTISE_SCHEDD", "READ")}


# Ads as those of a central collector: of a CE, and of one whose catalogue is hostile.
CE_ADS = """\
MyType = "Scheduler"
Name = "{name}"
MyAddress = "<192.0.2.1:9619>"
ScheddIpAddr = "<192.0.2.1:9619>"
Machine = "{name}"
OSG_Resource = "EXAMPLE-CE1"
OSG_ResourceGroup = "EXAMPLE"
OSG_BatchSystems = "SLURM"
grid_resource = strcat("condor ", Machine, " ", Machine, ":9619")
OSG_ResourceCatalog = {{ [ Name = "{entry}"; CPUs = 8; Memory = 2000 * CPUs; MaxWallTime = 2880; \
AllowedVOs = {{ "osg" }}; Requirements = TARGET.RequestCPUs <= CPUs; \
Transform = [ set_MaxMemory = RequestMemory; set_xcount = RequestCPUs ] ] }}
"""


def test_the_pools_collector_is_a_catalogue_of_gateways_and_ces(cm, tmp_path):
    wait_for("the gateway's ad", lambda: "gateway-slurm@" in cm.check_output("condor_status -schedd -af Name"), LIMIT_S)
    ads = "\n".join(
        CE_ADS.format(name=name, entry=entry)
        for name, entry in (("ce1.example.org", "sc1"), ("ce2.example.org", "{{ lookup('pipe', 'id') }}"))
    )
    cm.check_output(f"cat > /tmp/ces.ads <<'END'\n{ads}END\ncondor_advertise -multiple UPDATE_SCHEDD_AD /tmp/ces.ads")
    try:
        hosts, groups, errors = catalogue(tmp_path, "pool_collector")
    finally:
        query = 'MyType = "Query"\nTargetType = "Scheduler"\nRequirements = OSG_ResourceGroup == "EXAMPLE"\n'
        cm.check_output(f"cat > /tmp/ces.ads <<'END'\n{query}END\ncondor_advertise INVALIDATE_SCHEDD_ADS /tmp/ces.ads")
    assert groups["glidein_sites"] == ["ce1.example.org", "ce2.example.org", "gateway-slurm"]
    variables = hosts["ce1.example.org"]
    assert (variables["glidein_scheduler"], variables["glidein_ce"]) == ("htcondor_ce", "ce1.example.org:9619")
    assert variables["glidein_entries"]["sc1"]["node"]["memory_mb"] == 16000
    # A name that cannot be used is left out.
    assert list(hosts["ce2.example.org"]["glidein_entries"]) == ["8c-16000m"]
    assert "the ad 'ce2.example.org': 8c-16000m: Name: " in errors
    variables = hosts["gateway-slurm"]
    options = {"collector": "cm:9618", "gateway": "gateway-slurm@", "routes": True}
    assert (variables["glidein_scheduler"], variables["glidein_scheduler_options"]) == ("gateway", options)
    entries = variables["glidein_entries"]
    assert {name: (entry["queue"], entry["walltime"]) for name, entry in entries.items()} == {
        "cpu": ("cpu", "30m"),
        "gpu": ("gpu", "1h"),
    }
    assert (entries["cpu"]["node"]["cpus"], entries["gpu"]["node"]["gpus"]) == (8, 2)


def test_the_access_point_has_the_settings_for_gateways_and_those_of_the_operator(cm):
    names = ("C_GAHP_MAX_FILE_REQUESTS", "GRIDMANAGER_MAX_PENDING_REQUESTS", "GRIDMANAGER_JOB_PROBE_INTERVAL")
    assert cm.check_output(f"condor_config_val {' '.join(names)}").split() == ["50", "200", "5"]


def test_a_pilot_runs_in_slurm_with_a_clean_environment(alice, slurm):
    alice.host.check_output("cat > gateway.sub <<'END'\n" + PILOT + "END")
    alice.host.check_output("rm -f gateway.out; condor_submit gateway.sub")
    output = wait_for(
        "the pilot's output", lambda: alice.host.check_output("cat gateway.out 2>/dev/null || true"), LIMIT_S
    )
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert "SLURM_JOB_ID" in names
    assert not [name for name in names if "CONDOR" in name or name in ("LD_LIBRARY_PATH", "GLIDEIN_GATEWAY")]


def gateway_status(slurm):
    return dict(line.split(" ", 1) for line in slurm.check_output(f"{HOME}/slurm/gateway status").splitlines())


def test_killed_daemons_are_started_again_and_keep_the_queue(alice, slurm):
    # The pilot stays in the queue: nothing of the access point fetches its output.
    text = PILOT.replace("/usr/bin/env", "/bin/sleep").replace("output =", "arguments = 7200\noutput =")
    alice.host.check_output("cat > gateway.sub <<'END'\n" + text + "END")
    alice.host.check_output("condor_submit gateway.sub")
    running = "squeue -h -u glidein -t running -o %A"
    job = wait_for("the pilot in Slurm", lambda: slurm.check_output(running), LIMIT_S)
    slurm.check_output("kill -9 $(pgrep -u glidein condor)")

    def state():
        found = gateway_status(slurm)
        return found["state"] == "running" and found

    found = wait_for("the gateway", state, LIMIT_S)
    assert sum(int(found[name]) for name in ("idle", "running", "held")) == 1
    assert slurm.check_output(running) == job
    alice.host.check_output("condor_rm -all")
    wait_for("a queue without the pilot", lambda: not slurm.check_output("squeue -h -u glidein"), LIMIT_S)


@pytest.fixture(scope="module")
def deployed(alice):
    """Deploy the access point, and return it as the user alice."""
    SITE.deploy("-e", json.dumps(VARIABLES))
    return alice.host


@pytest.fixture
def access_point(deployed):
    """Return the access point, without glideins before and after the test."""

    def emptied():
        deployed.check_output("condor_rm -constraint 'GlideinJobName isnt undefined' >/dev/null 2>&1; true")
        wait_for("no glidein on the access point", lambda: not grid_glideins(deployed), LIMIT_S)

    emptied()
    yield deployed
    emptied()


def test_a_job_becomes_a_glidein_of_the_cluster_and_runs(alice, server, slurm, access_point):
    cluster = alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    cycle = SITE.play("cycle")
    (job_id,) = grid_glideins(access_point)
    assert f"1 (job {job_id.split('.')[0]})" in cycle.summary
    queued = "squeue -h -O JobID,Name:20,Partition:8,NumCPUs:6,MinMemory:10,TimeLimit:12,Comment:12"
    row = wait_for("a job of Slurm", lambda: slurm.check_output(queued).split(), LIMIT_S)
    # The glidein's 1024 MB, and 68 for itself.
    assert row[2:] == ["cpu", "1", "1092M", "1:00:00", "pilot"]
    assert alice.outputs(cluster, 1) == ['slurm\n"gateway"']
    wait_for(
        "a glidein that runs, as the access point knows", lambda: grid_glideins(access_point) == {job_id: 2}, LIMIT_S
    )
    assert SITE.counted(SITE.play("status"))[:3] == [0, 1, 0]


def test_a_glidein_that_slurm_refuses_is_sick_with_slurms_error(alice, server, access_point):
    shapes = {"small": {"cpus": 1, "memory_mb": 1024, "disk_mb": 2000}}
    entries = {"cpu": {"queue": "nowhere", "walltime": "1h", "shapes": shapes}}
    alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    SITE.play("cycle", "-e", json.dumps({"glidein_entries": entries}))
    wait_for("a held glidein", lambda: list(grid_glideins(access_point).values()) == [5], LIMIT_S)
    status = SITE.play("status")
    assert SITE.counted(status)[:3] == [0, 0, 1]
    assert "invalid partition specified: nowhere" in " ".join(status.output.split())


# --- routes

ROUTED = """\
universe = grid
grid_resource = condor gateway-slurm@ cm:9618
+remote_JobUniverse = 5
executable = /bin/sleep
arguments = 7200
transfer_executable = false
should_transfer_files = yes
+maxMemory = 400
+xcount = $(cpus)
request_gpus = $(gpus)
queue cpus, gpus from (
2, 0
1, 1
9, 0
)
"""
# A user's job: its output shows the user that it ran as, an input file, and whether Slurm ran it.
USER_JOB = """\
executable = /bin/sh
arguments = "-c 'id -un; cat given; env | grep -c ^SLURM_JOB_ID=; echo written > made'"
transfer_input_files = given
transfer_output_files = made
should_transfer_files = yes
when_to_transfer_output = on_exit
output = user.out
log = user.log
request_memory = 500
{more}
queue
"""
QUEUED = "squeue -h -O Partition:8,NumCPUs:6,MinMemory:10,TimeLimit:12,Comment:12,tres-per-node:20"


def gateway_jobs(slurm):
    """Return the counts of `gateway status`."""
    found = gateway_status(slurm)
    return {name: int(found[name]) for name in ("idle", "running", "held", "unrouted") if name in found}


def submit_as_user(alice, folder, more, options=""):
    """Submit USER_JOB in a new directory with an input file; return the cluster id."""
    text = USER_JOB.format(more=more)
    alice.host.check_output(
        f"rm -rf {folder}; mkdir {folder}; echo input > {folder}/given; cat > {folder}/job.sub <<'END'\n{text}END"
    )
    return alice.host.check_output(f"cd {folder}; condor_submit -terse {options} job.sub").split(".")[0]


def test_routes_write_the_requests_of_pilots_and_leave_too_large_ones_idle(alice, slurm):
    alice.host.check_output("cat > routed.sub <<'END'\n" + ROUTED + "END")
    alice.host.check_output("condor_submit routed.sub")
    rows = wait_for("two jobs of Slurm", lambda: _if(2, slurm.check_output(QUEUED).splitlines()), LIMIT_S)
    assert sorted(row.split() for row in rows) == [
        ["cpu", "2", "400M", "30:00", "routed", "N/A"],
        ["gpu", "1", "400M", "1:00:00", "(null)", "gres/gpu:1"],
    ]
    # Each routed pilot is two jobs of the gateway.
    counts = {"idle": 1, "running": 2, "held": 0, "unrouted": 1}
    wait_for("each pilot counted once", lambda: gateway_jobs(slurm) == counts, LIMIT_S)
    assert slurm.check_output(f"{HOME}/slurm/gateway unfinished") == "3"
    shown = playbook("status", "-e", json.dumps(VARIABLES))
    assert "jobs: 1 idle, 2 running, 0 held; 1 of the idle ones without a route" in shown.output
    alice.host.check_output("condor_rm -all")
    wait_for("an empty Slurm", lambda: not slurm.check_output("squeue -h -u glidein"), LIMIT_S)
    none = dict.fromkeys(counts, 0)
    wait_for("an empty gateway", lambda: gateway_jobs(slurm) == none, LIMIT_S)


def test_a_glidein_for_routes_with_the_payload_of_the_login_node_runs_a_job(alice, server, slurm, access_point):
    # The payload is that of the login node.
    shared = {"gateway": "gateway-slurm@", "routes": True, "shared_payload": "/home/glidein/.glidein/slurm"}
    options = {"glidein_scheduler_options": shared}
    shapes = {"small": {"cpus": 1, "memory_mb": 1024, "disk_mb": 2000}}
    options["glidein_entries"] = {"cpu": {"walltime": "20m", "shapes": shapes}}
    cluster = alice.submit(requirements='TARGET.GLIDEIN_Site == "gateway"')
    server.wait_for_jobs(1)
    SITE.play("cycle", "-e", json.dumps(options))
    row = wait_for("a job of Slurm", lambda: slurm.check_output(QUEUED).split(), LIMIT_S)
    assert row == ["cpu", "1", "1092M", "20:00", "routed", "N/A"]
    assert alice.outputs(cluster, 1) == ['slurm\n"gateway"']
    sent = access_point.check_output("condor_q -constraint 'GlideinJobName isnt undefined' -af TransferInput")
    assert set(sent.split()) == {"../credential"}


def test_users_jobs_run_through_the_access_points_job_router_and_by_the_gateways_name(cm, alice, server):
    text = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"^    DAEMON_LIST.*?^    @route$", text, re.DOTALL | re.MULTILINE)
    config = textwrap.dedent(config).replace("gateway-SITE@ cm.example.org:9618", "gateway-slurm@ cm:9618")
    path = "/etc/condor/config.d/95-routes.config"
    named = "-pool cm:9618 -name gateway-slurm@"
    output = ["glidein", "input", "1", "written"]
    cm.check_output(f"cat > {path} <<'END'\n{config}\nEND\ncondor_reconfig")
    try:
        routed = submit_as_user(alice, "routed", "+WantGateway = true")
        direct = submit_as_user(alice, "direct", "", "-pool cm:9618 -remote gateway-slurm@")
        state = f"condor_q {routed} -af Managed"
        wait_for("a routed job", lambda: alice.host.check_output(state) == "External", LIMIT_S)
        # It is no demand for glideins any longer.
        server.wait_for_jobs(0)

        ended = f"condor_q {named} {direct} -af JobStatus Managed"
        wait_for("the end of the direct job", lambda: alice.host.check_output(ended) == "4 ScheddDone", LIMIT_S)
        alice.host.check_output(f"cd direct; condor_transfer_data {named} {direct}; condor_rm {named} {direct}")
        assert alice.host.check_output("cat direct/user.out direct/made").split() == output

        history = f"condor_history {routed} -limit 1 -af JobStatus ExitCode"
        wait_for("the end of the routed job", lambda: alice.host.check_output(history) == "4 0", LIMIT_S)
        assert alice.host.check_output("cat routed/user.out routed/made").split() == output
    finally:
        cm.check_output(f"rm {path}; condor_reconfig")


# The attributes of a job in a line.
ADS = [
    'VO = "icecube"; xcount = 2; maxMemory = 500',
    'VO = "icecube"; maxWallTime = 30; queue = "cpu"',
    "RequestGPUs = 1",
    # No route accepts these.
    "xcount = 9",
    'queue = "gpu"',
    'maxMemory = "400"',
    "maxWallTime = 0",
]


def route_by_gateway(slurm, ads):
    """Return [(route, {attribute: value})] of `gateway route` for jobs as text; route: None without a route."""
    printed = slurm.check_output(f"{HOME}/slurm/gateway route <<'END'\n{ads}\nEND")
    found = []
    for block in re.split(r"^job \d+: ", printed, flags=re.MULTILINE)[1:]:
        first, *lines = block.splitlines()
        attributes = dict(line.strip().split(" = ", 1) for line in lines)
        found.append((None if first == "no route" else first.split()[1], attributes))
    return found


def test_the_gateway_shows_what_routes_and_transforms_make_of_a_job(slurm):
    ads = "\n\n".join(ad.replace("; ", "\n") for ad in ADS)
    found = route_by_gateway(slurm, ads)
    assert [route for route, _attributes in found] == ["cpu", "cpu", "gpu", None, None, None, None]
    shown = ("BatchQueue", "BatchRuntime", "NodeNumber", "RequestMemory", "BatchExtraSubmitArgs")
    assert [tuple(attributes.get(name) for name in shown) for _route, attributes in found[:3]] == [
        ('"cpu"', "1200", "2", "550", '"#SBATCH --comment=routed"'),
        ('"cpu"', "1800", "1", "350", '"#SBATCH --comment=routed"'),
        ('"gpu"', "3600", "1", "2000", None),
    ]


def test_routes_that_htcondor_refuses_change_nothing(slurm):
    config = slurm.check_output(f"cat {HOME}/slurm/condor_config")
    for command, message in (
        ("SETT BatchQueue 1", "CONFIGURATION ERROR: SETT is not a valid transform keyword"),
        ("SET BatchQueue 1 +", "ERROR: SET BatchQueue invalid expression : 1 +"),
    ):
        variables = dict(VARIABLES, glidein_gateway_routes=ROUTES.replace('SET BatchQueue "gpu"', command))
        done = playbook("gateway", "-l", "slurm", "-e", json.dumps(variables))
        assert done.rc != 0, done
        assert message in done.output
    assert slurm.check_output(f"cat {HOME}/slurm/condor_config") == config
    assert gateway_jobs(slurm)
    assert slurm.check_output(f"ls -d {HOME}/slurm/check.* 2>/dev/null || true") == ""


LIMITED = """\
universe = grid
grid_resource = condor gateway-slurm@ cm:9618
+remote_JobUniverse = $(target)
+remote_GridResource = "batch slurm"
executable = /bin/sleep
arguments = 7200
transfer_executable = false
should_transfer_files = yes
+maxMemory = $(memory)
+VO = "$(vo)"
+BatchProject = "$(account)"
request_gpus = $(gpus)
queue target, memory, gpus, vo, account from (
5, 40000, 0, other, other
5, 40000, 0, other, physics
5, 40000, 0, other, physics
5, 400, 1, icecube, other
5, 400, 1, icecube, physics
5, 400, 1, icecube, physics
5, 400, 1, other, physics
9, 400, 0, icecube, physics
)
"""


def test_the_documented_routes_limit_and_charge_pilots(cm, alice, slurm):
    page = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"^    JOB_ROUTER_ROUTE_NAMES.*?they set the account\"$", page, re.DOTALL | re.MULTILINE)
    documented = textwrap.dedent(documented).replace("MaxIdleJobs = 50", "MaxIdleJobs = 1").replace("= 20\n", "= 2\n")
    done = gateway_playbook("-l", "slurm", "--diff", "-e", json.dumps({"glidein_gateway_routes": documented}))
    added = (
        "+  MaxIdleJobs = 1",
        "+JOB_ROUTER_PRE_ROUTE_TRANSFORM_NAMES = icecube_walltime",
        "-JOB_ROUTER_ROUTE_cpu @=rou",
    )
    assert [line for line in added if f"\n{line}" not in done.output] == []

    match = re.search(r"^    \$ \S+/gateway route <<END\n(.*?)^    END\n(.*?no route)$", page, re.DOTALL | re.MULTILINE)
    ads, printed = (textwrap.dedent(text) for text in match.groups())
    assert slurm.check_output(f"{HOME}/slurm/gateway route <<'END'\n{ads}END") == printed

    alice.host.check_output("cat > limited.sub <<'END'\n" + LIMITED + "END")
    cluster = alice.host.check_output("condor_submit -terse limited.sub").split(".")[0]
    reason = f"condor_q {cluster}.7 -af HoldReason"
    wait_for("a refused pilot", lambda: "only pilots for its routes" in alice.host.check_output(reason), LIMIT_S)
    rows = "squeue -h -O Partition:8,State:10,MinMemory:10,TimeLimit:12,Account:12"
    expected = [
        ["cpu", "PENDING", "40100M", "2:00:00", "(null)"],
        ["cpu", "RUNNING", "40100M", "2:00:00", "(null)"],
        # The first account of icecube, whatever the pilot states.
        ["gpu", "RUNNING", "500M", "1:30:00", "physics"],
        ["gpu", "RUNNING", "500M", "1:30:00", "physics"],
    ]
    wait_for("full routes", lambda: sorted(map(str.split, slurm.check_output(rows).splitlines())) == expected, LIMIT_S)
    # One beyond each limit, and one without an account.
    counts = {"idle": 4, "running": 3, "held": 0, "unrouted": 3}
    wait_for("pilots that wait", lambda: gateway_jobs(slurm) == counts, LIMIT_S)

    on_gpu = f"condor_q {cluster} -constraint 'JobStatus == 2 && RequestGPUs == 1' -af:j Owner"
    both = wait_for("two pilots that run", lambda: _if(2, alice.host.check_output(on_gpu).splitlines()), LIMIT_S)
    former = set(slurm.check_output("squeue -h -p gpu -o %A").split())
    alice.host.check_output(f"condor_rm {' '.join(line.split()[0] for line in both)}")

    def waited():
        running = slurm.check_output("squeue -h -t running -p gpu -o %A").split()
        return len(running) == 1 and running[0] not in former

    wait_for("the pilot that waited", waited, LIMIT_S)
    alice.host.check_output("condor_rm -all")
    wait_for("an empty Slurm", lambda: not slurm.check_output("squeue -h -u glidein"), LIMIT_S)
    # These routes refuse the pilots of the next tests.
    gateway_playbook("-l", "slurm")


# --- failures, after which no pilot is lost and nothing needs a person but the playbooks

GATEWAY = f"{HOME}/slurm"
QUEUE = f"CONDOR_CONFIG={GATEWAY}/condor_config {GATEWAY}/release/bin/condor_q -allusers"
# blahp waits for sbatch for so long. It kills it 10 s later.
IMPATIENT = "s/^blah_child_poll_timeout=.*/blah_child_poll_timeout=5/"
SLOW = """\
#!/bin/sh
/usr/bin/sbatch.real "$@"
sleep 600
"""


def submit(alice, *commands):
    """Submit a pilot that sleeps; return its cluster id. commands: further ones of the description."""
    text = PILOT.replace("/usr/bin/env", "/bin/sleep").replace("output =", "arguments = 7200\noutput =")
    text = text.replace("queue\n", "\n".join([*commands, "queue\n"]))
    alice.host.check_output("cat > pilot.sub <<'END'\n" + text + "END")
    return alice.host.check_output("condor_submit -terse pilot.sub").split(".")[0]


def in_slurm(slurm):
    """Return {job id: state}."""
    return dict(line.split() for line in slurm.check_output("squeue -h -u glidein -o '%A %T'").splitlines())


def state_of(alice, cluster):
    """Return JobStatus and GridJobStatus at the access point."""
    return alice.host.check_output(f"condor_q {cluster} -af JobStatus GridJobStatus").split()


def token_ends(slurm):
    """Return when the gateway's tokens expire, in epoch seconds."""
    found = gateway_status(slurm)
    return int(found["pool_token_ends"]), int(found["submit_token_ends"])


def test_pilots_outlive_the_schedd_of_their_access_point_and_an_upgrade(alice, cm, slurm):
    """Stop the access point's schedd and gridmanager, and install another release, while pilots wait and run.

    The gateway does not contact the access point by itself, so the length of the outage does not matter.
    """
    running = submit(alice)
    waiting = submit(alice, '+remote_BatchExtraSubmitArgs = "#SBATCH --hold"')
    before = wait_for(
        "both pilots", lambda: sorted(in_slurm(slurm).values()) == ["PENDING", "RUNNING"] and in_slurm(slurm), LIMIT_S
    )
    release = slurm.check_output(f"readlink {GATEWAY}/release")
    cm.check_output("condor_off -fast -schedd")
    wait_for(
        "the end of the schedd", lambda: not cm.check_output("pgrep 'condor_schedd|condor_gridman' || true"), LIMIT_S
    )
    config = cm.check_output("cat /etc/blah.config")
    try:
        # The tarball has this file.
        cm.check_output("echo '# Another release.' >> /etc/blah.config")
        gateway_playbook()
        assert slurm.check_output(f"readlink {GATEWAY}/release") != release
        assert in_slurm(slurm) == before
        cm.check_output("condor_on -schedd")
        wait_for("the schedd", lambda: cm.run("condor_q -all").rc == 0, LIMIT_S)
        wait_for("the running pilot", lambda: state_of(alice, running) == ["2", "RUNNING"], LIMIT_S)
        wait_for("the waiting pilot", lambda: state_of(alice, waiting) == ["1", "IDLE"], LIMIT_S)
        assert in_slurm(slurm) == before
    finally:
        cm.check_output(f"cat > /etc/blah.config <<'END'\n{config}\nEND\ncondor_on -schedd")


def test_an_idle_gateway_ends_and_expired_tokens_are_renewed(alice, cm, slurm, tmp_path):
    wait_for("an empty queue", lambda: slurm.check_output(f"{QUEUE} -af ClusterId") == "", LIMIT_S)
    # As the schedd runs it each minute. `idle` has the time since which the queue is empty.
    attributes = f"{GATEWAY}/gateway attributes"
    slurm.check_output(f"{attributes} 3600; touch -d '1 hour ago' {GATEWAY}/idle; {attributes} 3600")
    wait_for("the end of the gateway", lambda: gateway_status(slurm)["state"] == "stopped", LIMIT_S)
    assert gateway_status(slurm)["reason"].startswith("idle since 20")
    slurm.check_output(f"{GATEWAY}/gateway keep")
    assert cm.check_output(LISTED) == ""

    expired = cm.check_output("condor_token_create -identity gateway-slurm@cm -lifetime 1 -authz ADVERTISE_SCHEDD")
    slurm.check_output(f"cat > {GATEWAY}/tokens.d/pool <<'END'\n{expired}\nEND")
    mint = f"CONDOR_CONFIG={GATEWAY}/condor_config {GATEWAY}/release/bin/condor_token_create -key POOL"
    short = slurm.check_output(f"{mint} -identity glidein@gateway-slurm -lifetime 1 -authz WRITE")
    slurm.check_output(f"cat > {GATEWAY}/submit-token <<'END'\n{short}\nEND")
    alice.host.check_output(f"cat > .condor/tokens.d/gateway-slurm <<'END'\n{short}\nEND")
    # As the playbook `gateway` does.
    slurm.check_output(f"sleep 1; rm {GATEWAY}/stopped; {GATEWAY}/gateway restart")
    assert max(token_ends(slurm)) < time.time()
    assert cm.check_output(LISTED) == ""
    pilot = submit(alice)
    # The access point cannot use the gateway: Ansible logs in.
    renew = playbook("renew", "-e", json.dumps(VARIABLES))
    assert renew.rc == 0, renew
    wait_for("the gateway's ad", lambda: cm.check_output(LISTED) == "gateway-slurm@", LIMIT_S)
    wait_for("the pilot", lambda: state_of(alice, pilot) == ["2", "RUNNING"], LIMIT_S)
    assert min(token_ends(slurm)) > time.time() + 29 * 86400

    # No login is possible, and the pool's token is renewed once more: a job of the gateway stores it.
    cm.check_output("rm /var/lib/glidein-ops/gateway/tokens/slurm")
    no_login = tmp_path / "no_login.json"
    no_login.write_text(json.dumps({"glidein_sites": {"hosts": {"slurm": {"ansible_port": 1}}}}))
    renew = playbook("renew", "-e", json.dumps(VARIABLES), inventory=(INVENTORY, no_login))
    assert renew.recap["slurm"]["changed"] == 1, renew
    token = slurm.check_output(f"cat {GATEWAY}/tokens.d/pool")
    assert token == cm.check_output("cat /var/lib/glidein-ops/gateway/tokens/slurm")
    assert token not in renew.output

    # The site's token becomes newer than the gateway's, which stays valid when older tokens are withdrawn.
    assert playbook("rotate", "-e", "rotate=tokens").rc == 0
    slurm.check_output(f"touch -d '5 minutes ago' ~/.glidein/slurm/credential {GATEWAY}/tokens.d/pool")
    finish = playbook("rotate", "-e", "rotate_finish=true", "-e", json.dumps(VARIABLES))
    assert finish.rc == 0, finish
    restarted_at = cm.check_output("date +%s")
    slurm.check_output(f"{GATEWAY}/gateway restart")
    newer = f"condor_status -schedd -constraint 'is_glidein && DaemonStartTime >= {restarted_at}' -af Name"
    wait_for("the ad of the restarted gateway", lambda: cm.check_output(newer) == "gateway-slurm@", LIMIT_S)


def test_a_batch_job_that_a_slow_sbatch_left_behind_is_cancelled(alice, slurm, slurm_root):
    """Slurm accepts the job, but blahp ends sbatch before it has printed the id."""
    slurm_root.check_output("mv /usr/bin/sbatch /usr/bin/sbatch.real")
    # A new blahp reads the file.
    slurm.check_output(f"cp -p {GATEWAY}/blah.config ~/blah.before; sed -i '{IMPATIENT}' {GATEWAY}/blah.config")
    slurm_root.check_output("pkill -u glidein -x blahpd; true")
    try:
        slurm_root.check_output("cat > /usr/bin/sbatch <<'END'\n" + SLOW + "END\nchmod 755 /usr/bin/sbatch")
        pilot = submit(alice)
        wait_for("a held pilot", lambda: state_of(alice, pilot)[:1] == ["5"], LIMIT_S)
        reason = alice.host.check_output(f"condor_q {pilot} -af HoldReason")
        assert "5 seconds timeout expired" in reason
        assert len(in_slurm(slurm)) == 1
        # As the schedd runs it each minute.
        slurm.check_output(f"{GATEWAY}/gateway attributes 0")
        wait_for("the cancellation", lambda: not in_slurm(slurm), LIMIT_S)
    finally:
        slurm_root.check_output("mv /usr/bin/sbatch.real /usr/bin/sbatch; pkill -u glidein -x blahpd; true")
        slurm.check_output(f"mv ~/blah.before {GATEWAY}/blah.config")
    assert "cancelled the untracked job" in slurm.check_output(f"cat {GATEWAY}/gateway.log")


def _if(count, lines):
    return lines if len(lines) == count else None
