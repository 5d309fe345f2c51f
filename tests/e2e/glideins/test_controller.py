# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a controller on the central manager's host: an unprivileged user's cycles, by a timer and by cron."""

import json
import subprocess

import prepare
import pytest
from conftest import INVENTORY, STATE, playbook, wait_for

NAME = "glidein-controller"
RUN = f"sudo -u {NAME} /opt/{NAME}/run"
OUTCOME = f"/var/lib/{NAME}/cycle/outcome.json"
TEXTFILES = "/var/lib/node_exporter"
ORIGIN = f"/var/lib/{NAME}/origin"
GIT = f"cd / && sudo -u {NAME} git -c user.name=ada -c user.email=ada@cm -C {ORIGIN}"
KEYS = "/home/glidein/.ssh/authorized_keys"
HOSTS = """\
all:
  children:
    glidein_sites:
      hosts:
        slurm:
          ansible_user: glidein
          glidein_deployment: lab
          glidein_collector: cm:9618
          glidein_demand_url: http://127.0.0.1:11001
          glidein_guard: {cancel_delay: 0, hold_readings: 0}
          glidein_scheduler: slurm
          glidein_entries:
            cpu:
              queue: cpu
              walltime: 1h
              shapes: {one: {cpus: 1, memory_mb: 1024, disk_mb: 1000}}
              directives: ["--begin=now+1hour"]  # queued is all that they are to be
"""


@pytest.fixture(scope="module")
def inventories(tmp_path_factory):
    """Return the lab's inventory with the controller, whose own inventory has the site's token in a vault."""
    folder = tmp_path_factory.mktemp("controller")
    copied = folder / "inventory"
    (copied / "group_vars").mkdir(parents=True)
    (copied / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    example = INVENTORY.parent / "example" / "ansible.cfg"
    (copied / "ansible.cfg").write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "vault").write_text("geheim\n", encoding="ascii")
    token = (STATE / "demand_tokens" / "slurm").read_text(encoding="ascii").strip()
    command = ["ansible-vault", "encrypt_string", "--vault-password-file", str(folder / "vault")]
    done = subprocess.run(
        [*command, "--name", "glidein_demand_token", token],
        env=prepare.environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    (copied / "group_vars" / "all.yml").write_text(done.stdout, encoding="utf-8")
    host = {
        "ansible_host": "cm",
        "lab_state": str(STATE),
        "controller_inventory": str(copied),
        "controller_vault_password_file": str(folder / "vault"),
        "controller_metrics_dir": TEXTFILES,
        "controller_playbooks": {"cycle": {"schedule": "*:*:0/30"}, "deploy": {"schedule": ""}},
    }
    groups = {"glidein_controllers": {"hosts": {"controller": host}}}
    (folder / "more.json").write_text(json.dumps({"all": {"children": groups}}), encoding="utf-8")
    return (INVENTORY, folder / "more.json")


@pytest.fixture(scope="module")
def controller(inventories, cm, slurm_root):
    """Return a function that applies the role with further variables; restore the hosts afterwards."""

    def apply(*arguments, **variables):
        env = {**prepare.environment(), "XDG_CACHE_HOME": str(STATE / "cache")}
        return playbook("controller", "-e", json.dumps(variables), *arguments, inventory=inventories, env=env)

    cm.check_output(f"mkdir -p {TEXTFILES}")
    slurm_root.check_output(
        f"install -d -o glidein -g glidein -m 0700 $(dirname {KEYS}); touch {KEYS}; cp -a {KEYS} /root/keys"
    )
    yield apply
    slurm_root.check_output(f"mv /root/keys {KEYS}; rm -f /usr/local/bin/squeue")
    removed = apply(controller_state="absent")
    assert removed.rc == 0, removed
    again = apply(controller_state="absent")
    assert (again.rc, again.recap["controller"]["changed"]) == (0, 0), again
    assert cm.check_output(f"ls {TEXTFILES}") == ""
    cm.check_output(f"rmdir {TEXTFILES}")
    assert (
        cm.run(f"ls -d /opt/{NAME} /etc/{NAME} /var/lib/{NAME} /etc/cron.d/{NAME} /etc/systemd/system/{NAME}*").stdout
        == ""
    )
    assert cm.run(f"getent passwd {NAME}").rc == 2


def outcome(cm):
    return json.loads(cm.check_output(f"cat {OUTCOME}"))


def queued(slurm):
    return len(slurm.check_output("squeue -h -r -u glidein").splitlines())


def make_squeue_hang(slurm_root):
    slurm_root.check_output("printf '#!/bin/sh\\nexec sleep 3600\\n' > /usr/local/bin/squeue")
    slurm_root.check_output("chmod 0755 /usr/local/bin/squeue")


def test_a_timer_runs_cycles(controller, alice, cm, server, slurm, slurm_root):
    check = controller("--check", "--diff")
    assert check.rc == 0, check
    cm.check_output(f"test ! -e /opt/{NAME} && ! id {NAME} 2>/dev/null")
    first = controller()
    assert first.rc == 0, first
    again = controller("--diff")
    assert (again.rc, again.recap["controller"]["changed"]) == (0, 0), again
    # The user can read the inventory and the vault's password, and cannot change them or the code.
    assert cm.run(f"sudo -u {NAME} test -r /etc/{NAME}/inventory/current/hosts.yml").rc == 0
    assert cm.check_output(f"cd / && sudo -u {NAME} find /opt/{NAME} /etc/{NAME} ! -type l -writable") == ""
    assert cm.run(f"sudo -u alice cat /etc/{NAME}/vault_password").rc != 0

    # The operator authorizes the key that the role created at the site.
    key = cm.check_output(f"cat /var/lib/{NAME}/.ssh/id_ed25519.pub")
    slurm_root.check_output(f"echo '{key}' >> {KEYS}")
    cm.check_output(f"sudo -u {NAME} -H ssh -o StrictHostKeyChecking=accept-new glidein@slurm true")
    alice.submit(count=2)
    server.wait_for_jobs(2)
    wait_for("glideins of a timer's cycle", lambda: queued(slurm) == 2, 600)
    # Cycles before that report the site's error.
    wait_for("an outcome without problems", lambda: outcome(cm)["cycle"]["problems"] == [], 600)
    assert (outcome(cm)["exit_status"], outcome(cm)["failed"]) == (0, [])
    metrics = cm.check_output(f"sudo -u alice cat {TEXTFILES}/{NAME}-cycle.prom")
    assert f'glidein_controller_exit_status{{controller="{NAME}",playbook="cycle"}} 0\n' in metrics
    # A cycle that an operator starts during one of the timer ends with its own status.
    make_squeue_hang(slurm_root)
    wait_for("a cycle that hangs", lambda: slurm.run("pgrep -f '[s]leep 3600'").rc == 0, 600)
    busy = cm.run(f"{RUN} cycle")
    assert (busy.rc, "still running: this one ends and changes nothing" in busy.stdout) == (75, True), busy
    # A stopped cycle leaves no process behind.
    cm.check_output(f"systemctl stop {NAME}-cycle.timer {NAME}-cycle.service")
    assert cm.run(f"pgrep -U {NAME}").rc == 1
    assert outcome(cm)["exit_status"] == 143
    slurm_root.check_output("rm /usr/local/bin/squeue; pkill -f '[s]leep 3600'; true")
    journal = cm.check_output(f"journalctl --no-pager -o cat -u {NAME}-cycle")
    assert "2 (job " in journal and "glidein.ops.cycle ended with status 0 after" in journal


def test_cron_runs_cycles_with_the_last_commit(controller, alice, cm, server, slurm, slurm_root):
    cm.check_output(
        "command -v crontab || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends cron"
    )
    cm.check_output(f"cp -r /etc/{NAME}/inventory/current/ {ORIGIN} && chown -R {NAME} {ORIGIN}")
    variables = {
        "controller_schedule": "cron",
        # A schedule that does not start a cycle meanwhile.
        "controller_playbooks": {"cycle": {"schedule": "7 3 1 1 *"}, "deploy": {"schedule": ""}},
        "controller_inventory_repository": ORIGIN,
        "controller_inventory": ".",
    }
    switched = controller(**variables)
    assert switched.rc == 0, switched
    assert cm.run(f"ls /etc/systemd/system/{NAME}*").rc != 0
    for command in ("init -q -b main", "add --all", "commit -q -m one"):
        cm.check_output(f"{GIT} {command}")
    line = next(line for line in cm.check_output(f"cat /etc/cron.d/{NAME}").splitlines() if line.startswith("7 3"))
    user, command = line.split(maxsplit=6)[5:]

    def cron():
        return cm.run(f"cd / && sudo -u {user} env -i HOME=/var/lib/{NAME} PATH=/usr/bin:/bin sh -c '{command}'").rc

    alice.submit(count=2)
    server.wait_for_jobs(2)
    assert cron() == 0, cm.check_output(f"cat /var/lib/{NAME}/cycle/log")
    assert queued(slurm) == 2
    done = outcome(cm)
    assert (done["cycle"]["submitted"], done["inventory"]["error"]) == (2, None)
    assert done["inventory"]["commit"] == cm.check_output(f"{GIT} rev-parse HEAD")
    assert "2 (job " in cm.check_output(f"cat /var/lib/{NAME}/cycle/log")

    # Without the repository, the cycle uses the last commit, and its exit status shows that. A run over the time limit
    # is ended.
    cm.check_output(f"mv {ORIGIN} {ORIGIN}.away")
    assert cron() == 74
    assert outcome(cm)["inventory"]["commit"] == done["inventory"]["commit"]
    cm.check_output(f"mv {ORIGIN}.away {ORIGIN}")
    make_squeue_hang(slurm_root)
    cm.check_output(f"sed -i s/^limit_s=600/limit_s=4/ /opt/{NAME}/cycle.settings")
    assert cron() == 124
    wait_for("the end of ansible-playbook", lambda: cm.run(f"pgrep -U {NAME} -f ansible-playbook").rc == 1, 30)
    assert "It ran longer than its time limit of 4 s, and was ended." in outcome(cm)["message"]
    slurm_root.check_output("rm /usr/local/bin/squeue; pkill -f '[s]leep 3600'; true")
    assert queued(slurm) == 2
