# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glideins with a newer HTCondor than the pool: Debian sid's package, as an operator's tarball."""

import json
import re

import pytest
from conftest import no_glideins, playbook
from site_deployment import deploy_sites

HOME = "/home/glidein/.glidein/newer"
ENTRIES = {"main": {"walltime": "1h", "shapes": {"one": {"cpus": 1, "memory_mb": 1024, "disk_mb": 500}}}}
PLACE = "/var/tmp/newer"  # noqa: S108 - on a host of the lab
ARCHIVE = f"{PLACE}/condor.tar.gz"
# From the mirror that the host itself uses, which may be an old copy; installed packages do not change.
FETCH = """\
rm -rf /var/tmp/newer && mkdir -p /var/tmp/newer/lists/partial && cd /var/tmp/newer
mirror=$(grep -rhoE 'https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d | head -n 1)
echo "deb $mirror sid main" >sources.list
set -- -qq -o Acquire::Check-Valid-Until=false -o Dir::Etc::SourceParts=/dev/null \
  -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::State::Lists=$PWD/lists
apt-get "$@" update && apt-get "$@" download condor || exit 3
dpkg-deb -x condor_*.deb package
mkdir condor && cd package/usr && mv bin sbin lib ../../condor/ && mv libexec/condor ../../condor/libexec && cd ../..
cp -L /usr/lib/*/libgomp.so.1 condor/lib/ # which a node may lack
find condor -lname '/*' -delete # links to places in the system would be refused
tar czf condor.tar.gz condor
"""


@pytest.fixture
def newer(cm):
    """Return the checksum of a tarball with sid's HTCondor on the central manager."""
    fetched = cm.run("sh -eu -c %s", FETCH)
    if fetched.rc == 3:
        pytest.skip(f"Debian sid's package of HTCondor cannot be had: {fetched.stderr.strip()[-300:]}")
    assert fetched.rc == 0, fetched.stderr
    yield cm.check_output(f"sha256sum {ARCHIVE}").split()[0]
    cm.check_output(f"rm -rf {PLACE}")


def test_a_newer_htcondor_joins_the_pool_and_runs_its_jobs(newer, alice, cm, slurm, more_sites):
    tarballs = {
        "native": {"source": "installed"},
        "newer": {"source": "upstream", "upstream": ARCHIVE, "sha256": newer},
    }
    site = {"ansible_host": "slurm", "glidein_entries": ENTRIES, "glidein_platforms": ["newer"]}
    inventory = more_sites({"newer": site})
    more = ("-e", json.dumps({"glidein_tarballs": tarballs}))
    deploy_sites(inventory, "newer", tags="tarball,tokens,sites", arguments=more)
    try:
        assert slurm.check_output(f"ls {HOME}/current/tarballs") == "newer.tar.gz"
        cluster = alice.submit(requirements='TARGET.GLIDEIN_Site == "newer"')
        probe = playbook("probe", "-l", "newer", *more, inventory=inventory)
        assert probe.rc == 0, probe
        pools, glideins = (
            int(re.search(r"CondorVersion: (\d+)", cm.check_output(command)).group(1))
            for command in (
                "condor_version",
                "condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"newer\"' -af CondorVersion",
            )
        )
        assert pools < glideins, probe
        assert alice.outputs(cluster) == ['slurm\n"newer"']
    finally:
        no_glideins(slurm)
        slurm.check_output(f"rm -rf {HOME}")
