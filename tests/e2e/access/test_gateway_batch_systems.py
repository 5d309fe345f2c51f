# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gateways for Grid Engine, another HTCondor pool, PBS and LSF.

Two gateways run on the login node `sge`, whose packet filter drops all connections to it but SSH, and allows only the
documented ports of the access point. For PBS and LSF, commands that store the batch script stand in: blahp's own
scripts run, but no batch system.
"""

import concurrent.futures
import json

import pytest
from batch_site import BatchSite
from conftest import BATCH_INVENTORY, add_sites, bring_up, host, playbook, wait_for
from site_deployment import deploy_sites

LIMIT_S = 400  # on a busy machine
SNIPPET = "/etc/condor/config.d/50-glidein-ops.config"
HOME = "/home/glidein/.glidein-gateway"
COMMANDS = "/home/glidein/stand-in"
LOGIN = {
    "glidein_gateway": True,
    "glidein_gateway_submit_user": "alice",
    "glidein_gateway_supervisor": "cron",
    "glidein_gateway_extra_config": "GRIDMANAGER_JOB_PROBE_INTERVAL = 5",
}
COMMON = {
    "walltime": "1h",
    # Until its batch job has been examined, and after its only job.
    "idle_timeout": "40m",
    "idle_after_job": "5s",
    "shapes": {"small": {"cpus": 2, "memory_mb": 1024, "disk_mb": 2000}},
}
GRID_ENGINE = {
    **COMMON,
    "queue": "cpu.q",
    "account": "physics",
    "directives": ["-ac project=glidein", "-p -100"],
    "resources": {"memory": "m_slot", "disk": "scratch", "parallel_environment": "smp"},
}
# The status of such a site has the queue of the login node.
AT_SGE = {"ansible_host": "sge", "glidein_scheduler": "sge", "glidein_entries": {"cpu": GRID_ENGINE}}


def access_point(batch_system, gateway, **entries):
    """Return the variables of the access point as a site that sends glideins to a gateway."""
    return {
        "ansible_host": "cm-alice",
        "glidein_scheduler": "gateway",
        "glidein_scheduler_options": {"batch_system": batch_system, "gateway": f"gateway-{gateway}@"},
        "glidein_entries": entries,
    }


SITES = {
    # The gateway that is installed first is removed first.
    "stand-in": {
        **LOGIN,
        **AT_SGE,
        "glidein_gateway_blah_config": {"pbs_binpath": COMMANDS, "lsf_binpath": COMMANDS, "lsf_nologaccess": "yes"},
    },
    "grid": {**LOGIN, **AT_SGE},
    "pool": {**LOGIN, "ansible_host": "htc"},
    "to-grid": access_point("sge", "grid", cpu=GRID_ENGINE, wrong={**GRID_ENGINE, "queue": "nowhere.q"}),
    "to-pool": access_point("htcondor", "pool", cpu=COMMON),
    "to-pbs": access_point(
        "torque", "stand-in", cpu={**COMMON, "queue": "batch", "account": "physics", "directives": ["-l qos=low"]}
    ),
    "to-lsf": access_point(
        "lsf",
        "stand-in",
        cpu={
            **COMMON,
            "queue": "normal",
            "account": "physics",
            "directives": ["-app glidein"],
            "resources": {"memory_unit": "MB"},
        },
    ),
}
FIRST_PORT, LAST_PORT = 20000, 20199
VARIABLES = {
    # The defaults of an access point wait for minutes.
    "central_manager_extra_config": "GRIDMANAGER_JOB_PROBE_INTERVAL = 5\nGRIDMANAGER_CONTACT_SCHEDD_DELAY = 1\n"
    "C_GAHP_CONTACT_SCHEDD_DELAY = 1\nCGAHP_SCHEDD_INTERACTION_TIME = 1\nGRIDMANAGER_RESOURCE_PROBE_INTERVAL = 10\n"
    f"IN_LOWPORT = {FIRST_PORT}\nIN_HIGHPORT = {LAST_PORT}\n"
}
FILTER = f"""\
table inet site {{
  chain input {{
    type filter hook input priority 0
    iif lo accept
    ct state established,related accept
    tcp dport 22 accept
    meta l4proto tcp drop
  }}
  chain output {{
    type filter hook output priority 0
    oif lo accept
    ct state established,related accept
    tcp sport 22 accept
    tcp dport 9618 accept
    tcp dport {FIRST_PORT}-{LAST_PORT} counter accept
    meta l4proto tcp reject with tcp reset
  }}
}}
"""
STAND_IN = """\
#!/bin/sh
# A batch system that accepts every job, stores its script, and reports that it runs.
dir=${0%/*}
case ${0##*/} in
qsub) cp "$1" "$dir/pbs"; echo 123.server ;;
bsub) env >"$dir/environment"; cat >"$dir/lsf"; echo "Job <124> is submitted to queue <normal>." ;;
qstat) printf 'Job Id: 123.server\\n    job_state = R\\n\\n' ;;
bhist) printf 'Job <124>\\n: Submitted from host <sge>\\n: Starting (Pid 1)\\n' ;;
qdel | bkill) echo "$1" >>"$dir/cancelled" ;;
esac
"""


def install(machine, *packages):
    names = " ".join(packages)
    machine.check_output(
        f"dpkg -s {names} >/dev/null 2>&1 || "
        f"{{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq {names}; }}"
    )


@pytest.fixture(scope="module")
def grid_root():
    """Return the administrator of the login node `sge`, with the packet filter on."""
    bring_up("sge")
    bring_up("htc")
    machines = [host("sge-root"), host("htc-root")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(install, machines, ["cron nftables", "cron"]))
    for machine in machines:
        machine.check_output("systemctl start cron")
    wait_for("a machine in the other pool", lambda: machines[1].check_output("condor_status -af Name"), LIMIT_S)
    machines[0].check_output(f"nft flush ruleset && nft -f - <<'END'\n{FILTER}END")
    yield machines[0]
    machines[0].check_output("nft flush ruleset")


@pytest.fixture(scope="module")
def inventories(tmp_path_factory):
    lab, sites = add_sites(tmp_path_factory.mktemp("inventory"), SITES)
    return lab, BATCH_INVENTORY, sites


def gateway_playbook(inventories, *arguments):
    done = playbook("gateway", "-e", json.dumps(VARIABLES), *arguments, inventory=inventories)
    assert done.rc == 0, done
    return done


@pytest.fixture(scope="module", autouse=True)
def grid(cm, grid_root, inventories):
    """Install all gateways in one run, and return the login node `sge` as its user; afterwards remove them."""
    before = cm.check_output(f"cat {SNIPPET}")
    login, pool = host("sge"), host("htc")
    pool.check_output("condor_rm -all >/dev/null 2>&1; true")
    login.check_output("rm -rf ~/.condor")
    files = login.check_output("ls")
    login.check_output(f"mkdir -p {COMMANDS} && cat >{COMMANDS}/program <<'END'\n{STAND_IN}END")
    names = "qsub bsub qstat bhist qdel bkill lsid"
    login.check_output(f"cd {COMMANDS} && chmod 700 program && for name in {names}; do ln -sf program $name; done")
    gateway_playbook(inventories, "-l", "cm,stand-in,grid,pool")
    yield login
    # blahp leaves completed jobs in the queue for 30 minutes.
    pool.check_output("condor_rm -all >/dev/null 2>&1; true")
    everything = "gateway_state=absent gateway_cancel_jobs=true"
    gateway_playbook(inventories, "-l", "stand-in,grid,pool", "-e", everything)
    cm.check_output(f"cat > {SNIPPET} <<'END'\n{before}\nEND")
    cm.check_output("condor_reconfig")
    login.check_output(f"rm -r {COMMANDS}")
    assert login.check_output("ls") == files
    # The commands of the other pool write ~/.condor/known_hosts there.
    assert login.check_output("ls -d ~/.condor 2>/dev/null || true") == ""
    for machine in (login, pool):
        assert machine.check_output(f"ls -d {HOME} 2>/dev/null || true") == ""
        assert machine.check_output("crontab -l 2>/dev/null || true") == ""
    assert login.check_output("pgrep -u glidein condor || true") == ""
    assert cm.check_output("ls /var/lib/glidein-ops/gateway/tokens; ls -A ~alice/.condor/tokens.d") == ""


@pytest.fixture(scope="module")
def sites(grid, inventories):
    """Deploy the access point for each batch system; return {site: BatchSite}."""
    found = {name: BatchSite(name, "gateway", "cpu", inventories) for name in SITES if name.startswith("to-")}
    deploy_sites(inventories, *found, arguments=("-e", json.dumps(VARIABLES)))
    return found


def states(access_point, site):
    """Return {name of the script: JobStatus} of the glideins of a site on the access point."""
    found = access_point.check_output(
        f"""condor_q -constraint 'regexp("/{site}/", Cmd)' -format '%s ' Cmd -format '%d\\n' JobStatus"""
    )
    return {line.split()[0].rpartition("/")[2]: int(line.split()[1]) for line in found.splitlines()}


def test_pilots_run_in_each_batch_system_with_what_was_requested(alice, grid, grid_root, sites):
    access_point = alice.host
    access_point.check_output("rm -f ~/.glidein/to-*/log/*")
    plan = [
        {"entry": entry, "shape": "small", "present": 1, "reason": "test"}
        for entry in SITES["to-grid"]["glidein_entries"]
    ]
    now = "{{ now(utc=true).timestamp() | int }}"
    sites["to-grid"].module("glideins", collector="{{ glidein_collector }}", plan_as_of=now, plan=plan)
    for site in ("to-pool", "to-pbs", "to-lsf"):
        sites[site].make_present(1)

    # Grid Engine
    job = wait_for(
        "a job of Grid Engine", lambda: grid.check_output("qstat -u glidein -s r | awk 'NR == 3 {print $1}'"), LIMIT_S
    )
    shown = dict(
        (part.strip() for part in line.split(":", 1))
        for line in grid.check_output(f"qstat -j {job}").splitlines()
        if ":" in line
    )
    assert set(shown["hard resource_list"].split(",")) == {"h_rt=3600", "m_slot=548M", "scratch=1000M"}
    assert shown["parallel environment"] == "smp range: 2"
    assert shown["hard_queue_list"] == "cpu.q"
    assert (shown["project"], shown["priority"], shown["context"]) == ("physics", "-100", "project=glidein")
    assert len(shown["job_name"]) == len("g952ce-1c5e5ee7")

    # HTCondor
    requested = "condor_q -af JobStatus RequestCpus RequestMemory"
    wait_for("a job of the other pool", lambda: host("htc").check_output(requested) == "2 2 1096", LIMIT_S)

    # Users' jobs run, and the pilots' output comes back.
    clusters = [
        alice.submit(cpus=2, requirements=f'TARGET.GLIDEIN_Site == "{site}"') for site in ("to-grid", "to-pool")
    ]
    outputs = [alice.outputs(cluster) for cluster in clusters]
    assert outputs == [['sge\n"to-grid"'], ['htc\n"to-pool"']]
    ended = "grep -l 'ended because' ~/.glidein/to-grid/log/*.out ~/.glidein/to-pool/log/*.out 2>/dev/null | wc -l"
    wait_for("the output of both glideins", lambda: access_point.check_output(ended) == "2", LIMIT_S)

    # qsub refused the other entry.
    wait_for("a held glidein", lambda: states(access_point, "to-grid") == {"wrong.small.sh": 5}, LIMIT_S)
    assert "nowhere.q" in sites["to-grid"].module("queue_info")

    # PBS and LSF
    wait_for(
        "both batch scripts",
        lambda: grid.check_output(f"cd {COMMANDS}; cat pbs lsf || true").count("GLIDEIN_OUTER_JOB") == 2,
        LIMIT_S,
    )
    pbs, lsf = (
        [line for line in grid.check_output(f"cat {COMMANDS}/{name}").splitlines() if line.startswith(f"#{prefix} ")]
        for name, prefix in (("pbs", "PBS"), ("lsf", "BSUB"))
    )
    for line in (
        "#PBS -l mem=1096mb",
        "#PBS -l qos=low -q batch -A physics -l walltime=1:00:00",
        "#PBS -l nodes=1:ppn=2",
    ):
        assert line in pbs
    assert lsf[2:5] == ["#BSUB -q normal", "#BSUB -P physics", "#BSUB -W 60"]
    assert lsf[5].startswith("#BSUB -app glidein -J g")
    assert lsf[5].endswith(' -n 2 -R "rusage[mem=1096] span[hosts=1]" -M 1096')
    assert "CONDOR" not in grid.check_output(f"cat {COMMANDS}/environment")
    running = {"cpu.small.sh": 2}
    wait_for("a running glidein of PBS", lambda: states(access_point, "to-pbs") == running, LIMIT_S)
    wait_for("a running glidein of LSF", lambda: states(access_point, "to-lsf") == running, LIMIT_S)
    access_point.check_output("condor_rm -all")
    cancelled = f"sort {COMMANDS}/cancelled 2>/dev/null || true"
    wait_for("cancelled jobs of PBS and LSF", lambda: grid.check_output(cancelled).split() == ["123", "124"], LIMIT_S)
    wait_for("an empty queue", lambda: not states(access_point, "to-"), LIMIT_S)

    # All of that needed no connection to the login node, and from there only the documented ports.
    rule = grid_root.check_output(f"nft list ruleset | grep {FIRST_PORT}-{LAST_PORT}")
    assert "packets 0 " not in rule
    assert grid.run("timeout 20 bash -c '</dev/tcp/cm/22'").rc != 0
    port = grid.check_output(f"sed -n 's/^<[^:]*:\\([0-9]*\\)?.*/\\1/p' {HOME}/grid/local/log/.master_address")
    assert access_point.run(f"timeout 20 bash -c '</dev/tcp/sge/{port}'").rc != 0


def test_a_gateway_goes_on_when_another_one_of_its_login_node_is_removed(alice, cm, grid, grid_root, inventories):
    def running():
        ids = grid.check_output(f"grep -lsxzF GLIDEIN_GATEWAY={HOME}/grid /proc/[0-9]*/environ || true")
        # Not those of the commands of blahp and of cron, which end.
        return set(grid.check_output("pgrep -f '[c]ondor_(master|schedd|shared_port)'").split()) & {
            path.split("/")[2] for path in ids.split()
        }

    found = " ".join(playbook("status", "-l", "stand-in,grid", inventory=inventories).output.split())
    for name in ("stand-in", "grid"):
        assert f"{name}: running, HTCondor 23.9.6, kept alive by cron; jobs: 0 idle" in found
    before = running()
    assert len(before) == 3
    key = grid.check_output(f"sha256sum {HOME}/grid/passwords.d/POOL {HOME}/grid/tokens.d/pool")

    gateway_playbook(inventories, "-l", "stand-in", "-e", "gateway_state=absent")

    keep = f"{HOME}/grid/gateway keep"
    assert grid.check_output("crontab -l | grep -v '^#'") == f"@reboot {keep}\n* * * * * {keep}"
    assert grid.check_output(f"ls {HOME}") == "grid"
    assert running() == before
    assert grid.check_output(f"sha256sum {HOME}/grid/passwords.d/POOL {HOME}/grid/tokens.d/pool") == key
    assert cm.check_output("ls /var/lib/glidein-ops/gateway/tokens").split() == ["grid", "pool"]
    assert alice.host.check_output("ls ~/.condor/tokens.d").split() == ["gateway-grid", "gateway-pool"]
    alice.host.check_output("condor_q -name gateway-grid@ -allusers")

    # Without the ports of the access point, that fails.
    grid_root.check_output(f"nft insert rule inet site output tcp dport {FIRST_PORT}-{LAST_PORT} drop")
    failed = alice.host.run("condor_q -name gateway-grid@ -allusers")
    assert failed.rc != 0
    assert "reversed connection" in failed.stderr, failed
