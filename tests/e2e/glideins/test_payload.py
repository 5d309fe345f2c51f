# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the operator's files and job wrapper, jobs in containers by Apptainer, and running daemons' logs.

The logs are in the log directory, and in a bucket of Ceph's S3 server, which verifies signatures and the conditions of
the signed form: prefix, size and time. Apptainer runs without root, from a sandbox image.
"""

import gzip
import io
import re
import tarfile

import botocore.config
import botocore.session
import pytest
import requests
from conftest import STATE, add_sites, bring_up, playbook, wait_for
from site_deployment import deploy_sites

SITE = "payload"
HOME = f"/home/glidein/.glidein/{SITE}"
BUCKET = {"bucket": "logs", "endpoint": "http://s3:7480", "access_key": "lab", "secret_key": "lab-key"}
VARIABLES = {
    "ansible_host": "slurm",
    "glidein_site": SITE,
    "glidein_entries": {
        "main": {
            "walltime": "1h",
            "limits": {"total": 1},
            "shapes": {"one": {"cpus": 2, "memory_mb": 1024, "disk_mb": 500}},
            # Apptainer is not in the usual PATH, so that no other test has it.
            "environment": {"PATH": "/usr/apptainer:/usr/bin:/bin"},
        }
    },
    "glidein_log_interval": "5s",
    "glidein_log_s3": BUCKET,
}


INSTALL = """\
set -eu
exec >&2
export DEBIAN_FRONTEND=noninteractive
mirror=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)
cat >/etc/apt/sources.list.d/unstable.sources <<SOURCES
Types: deb
URIs: $mirror
Suites: sid
Components: main
Check-Valid-Until: no
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
printf '%s\\n' 'Package: *' 'Pin: release n=sid' 'Pin-Priority: 1' >/etc/apt/preferences.d/unstable
trap 'rm -f /etc/apt/sources.list.d/unstable.sources /etc/apt/preferences.d/unstable' EXIT
[ -x /usr/apptainer/apptainer ] || {
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends apptainer/sid busybox-static
  image=/opt/images/root
  mkdir -p $image/bin $image/dev $image/etc $image/proc $image/sys $image/tmp $image/var/tmp
  cp /bin/busybox $image/bin/
  for name in sh cat id; do ln -sf busybox $image/bin/$name; done
  echo NAME=image >$image/etc/os-release
  apptainer build --force --sandbox /opt/images/busybox $image
  chmod -R a+rX /opt/images/busybox
  mkdir -p /usr/apptainer
  mv /usr/bin/apptainer /usr/apptainer/
  rm -f /usr/bin/singularity /usr/bin/singularity.apptainer
}
"""


@pytest.fixture(scope="module")
def s3():
    """Create the bucket; return a client of its owner."""
    bring_up("s3")
    client = botocore.session.Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=(STATE / "s3_url").read_text(encoding="ascii"),
        aws_access_key_id=BUCKET["access_key"],
        aws_secret_access_key=BUCKET["secret_key"],
        config=botocore.config.Config(s3={"addressing_style": "path"}),
    )
    wait_for("the S3 server", lambda: _made(client))
    # Objects of an earlier run.
    for item in client.list_objects_v2(Bucket=BUCKET["bucket"]).get("Contents", []):
        client.delete_object(Bucket=BUCKET["bucket"], Key=item["Key"])
    return client


def _made(client):
    try:
        return client.create_bucket(Bucket=BUCKET["bucket"])
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
        return None


@pytest.fixture(scope="module")
def site(slurm, s3, tmp_path_factory):
    """Deploy another site on the lab's login node with files of the operator; yield the inventories to use."""
    folder = tmp_path_factory.mktemp("payload")
    (folder / "tools").mkdir()
    (folder / "tools" / "hello").write_text("#!/bin/sh\necho hello\n")
    (folder / "tools" / "hello").chmod(0o755)
    (folder / "wrapper").write_text('#!/bin/sh\necho "wrapped: $GLIDEIN_Site"\nexec "$@"\n')
    (folder / "wrapper").chmod(0o755)
    # Relative to the directory of the inventory.
    own = {"glidein_payload_files": ["tools"], "glidein_job_wrapper": "wrapper"}
    inventory = add_sites(folder, {SITE: {**VARIABLES, **own}})
    done = deploy_sites(inventory, SITE, arguments=("--diff",))
    assert re.search(r"^\+0700 [0-9a-f]{12} files/tools/hello$", done.output, re.MULTILINE), done
    assert re.search(r"^\+0700 [0-9a-f]{12} job_wrapper$", done.output, re.MULTILINE), done
    yield inventory
    slurm.check_output(f"rm -rf {HOME}")


@pytest.fixture(scope="module")
def apptainer(slurm_root):
    """Install Apptainer on the node outside the usual PATH, and create a sandbox image with busybox.

    Debian has Apptainer only in its unstable suite; its other packages are those of the node's release.
    """
    slurm_root.check_output(f"sh -s <<'END'\n{INSTALL}END")


def uploaded(s3):
    """Return {key: {name: text}} of the archives in the bucket."""
    found = {}
    for item in s3.list_objects_v2(Bucket=BUCKET["bucket"]).get("Contents", []):
        body = s3.get_object(Bucket=BUCKET["bucket"], Key=item["Key"])["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(body))) as members:
            files = [member for member in members.getmembers() if member.isfile()]
            found[item["Key"]] = {one.name: members.extractfile(one).read().decode() for one in files}
    return found


def test_logs_of_a_running_glidein_are_in_the_log_directory_and_in_the_bucket(site, s3, alice, server, slurm):
    alice.submit(count=1, seconds=7200)
    server.wait_for_jobs(1)
    done = playbook("cycle", "-l", SITE, "--diff", inventory=site)
    assert done.rc == 0, done
    form = slurm.check_output(f"cat {HOME}/log_s3")
    fields = dict(line.split(" ", 1) for line in form.splitlines())
    assert slurm.file(f"{HOME}/log_s3").mode == 0o600
    for secret in (BUCKET["secret_key"], fields["policy"], fields["x-amz-signature"]):
        assert secret not in done.output
    assert BUCKET["secret_key"] not in form

    started = f"grep -l 'Create_Process succeeded' {HOME}/log/glidein_*/StarterLog.slot1_1 2>/dev/null; true"
    wait_for("the log of a running job in the log directory", lambda: slurm.check_output(started))
    (key, logs) = wait_for(
        "the log of a running job in the bucket",
        lambda: [(key, logs) for key, logs in uploaded(s3).items() if any("slot1_1" in name for name in logs)],
    )[0]
    assert re.match(rf"^glidein-logs/{SITE}/glidein_[0-9_]+_\w{{8}}\.tar\.gz\Z", key), key
    assert "cannot be" not in slurm.check_output(f"cat {HOME}/log/*.out")
    token = slurm.check_output(f"cat {HOME}/credential").strip()
    for text in [*logs.values(), slurm.check_output(f"cat {HOME}/log/glidein_*/*")]:
        assert "eyJ" not in text and token.split(".")[2] not in text
        # HTCondor prints a claim's id without its secret part.
        assert not re.search(r"#\d+#\d+#(?!\.\.\.)\S{20}", text)

    # The form writes below its prefix only, and objects of limited size.
    url = (STATE / "s3_url").read_text(encoding="ascii") + "/logs"
    form_fields = {name: value for name, value in fields.items() if name != "url"}

    def post(key, data=b"x", **changes):
        body = dict(form_fields, key=key, **changes)
        return requests.post(url, data=body, files={"file": ("f", data)}, timeout=120).status_code

    assert post(f"glidein-logs/{SITE}/x.tar.gz") == 204
    assert post("glidein-logs/other/x.tar.gz") == 403
    assert post(f"glidein-logs/{SITE}/x.tar.gz", **{"x-amz-signature": "0" * 64}) == 403
    assert post(f"glidein-logs/{SITE}/x.tar.gz", b"x" * (6 << 20)) == 400


JOB = """\
executable = /bin/sh
arguments = "-c '{script}'"
output = payload.$(Cluster).out
error = payload.$(Cluster).err
log = payload.$(Cluster).log
request_cpus = 1
request_memory = 100MB
request_disk = 10MB
{more}
queue
"""
CONTAINER = """\
universe = container
container_image = /opt/images/busybox
transfer_container = false
transfer_executable = false
"""


def submit(alice, script, more=""):
    text = JOB.format(script=script, more=more)
    return alice.host.check_output(f"cat >payload.sub <<'END'\n{text}END\ncondor_submit -terse payload.sub").split(".")[
        0
    ]


def output(alice, cluster):
    """Wait for the end of a job; return its output and its errors."""
    wait_for("the end of a job", lambda: not alice.host.check_output(f"condor_q {cluster} -af JobStatus"))
    return alice.host.check_output(f"cat payload.{cluster}.out; cat payload.{cluster}.err >&2; true")


def test_jobs_use_the_operators_files_and_wrapper_and_run_in_containers(site, apptainer, alice, server):
    plain = submit(alice, "$GLIDEIN_FILES/tools/hello; cat /etc/os-release | head -n 1; sleep 20")
    contained = submit(alice, "cat /etc/os-release; id -u; echo in $PWD", CONTAINER)
    server.wait_for_jobs(2)
    done = playbook("cycle", "-l", SITE, inventory=site)
    assert done.rc == 0, done
    assert output(alice, plain).splitlines()[:2] == [f"wrapped: {SITE}", "hello"]
    # The wrapper runs outside of the container.
    assert output(alice, contained).splitlines() == [f"wrapped: {SITE}", "NAME=image", "1000", "in /srv"]


def test_a_form_that_s3_would_not_accept_is_refused_before_anything_is_deployed(tmp_path):
    entry = dict(VARIABLES["glidein_entries"]["main"], walltime="5d")
    inventory = add_sites(tmp_path, {SITE: dict(VARIABLES, glidein_entries={"main": entry})})
    done = playbook("deploy", "-l", f"cm,{SITE}", inventory=inventory)
    assert done.rc != 0
    assert "S3 accepts a signature for at most 604800 s (7 days)" in done.output, done
