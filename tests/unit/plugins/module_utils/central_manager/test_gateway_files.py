# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a gateway: its programs find their libraries, and blahp is repaired."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager import gateway_files as gf
from ansible_collections.glidein.ops.plugins.module_utils.central_manager import tarballs as tb
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.elf import (
    Elf,
    read_elf,
    with_library_path,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.tests.unit.support.elf import VERSION, elf


@pytest.mark.parametrize("runpath", [None, "/opt/condor/lib:/opt/more"])
def test_a_library_path_replaces_the_former_one(runpath):
    changed = with_library_path(elf(["liba.so", "libb.so"], runpath), "$ORIGIN/../lib")
    assert read_elf(changed) == Elf(62, ["liba.so", "libb.so"], ["$ORIGIN/../lib"])


def test_a_library_path_can_be_changed_only_once():
    changed = with_library_path(elf(["liba.so"]), "$ORIGIN")
    with pytest.raises(GlideinError, match="note segment"):
        with_library_path(changed, "$ORIGIN")


@pytest.mark.parametrize(
    ("data", "message"),
    [(elf(["liba.so"], spare=1), "without room"), (elf(["liba.so"], note=7), "note segment")],
)
def test_a_file_without_room_for_a_library_path(data, message):
    with pytest.raises(GlideinError, match=message):
        with_library_path(data, "$ORIGIN")


def test_a_real_program_runs_with_the_library_beside_it(tmp_path):
    program = shutil.which("ls")
    data = Path(program).read_bytes() if program else b""
    if not read_elf(data) or not read_elf(data).needed:
        pytest.skip("this host has no dynamically linked 64-bit program ls")
    changed = tmp_path / "ls"
    changed.write_bytes(with_library_path(data, "$ORIGIN/../lib"))
    changed.chmod(0o700)
    (tmp_path / "seen").touch()
    found = subprocess.run([os.fspath(changed), os.fspath(tmp_path)], stdout=subprocess.PIPE, check=True)
    assert found.stdout.split() == [b"ls", b"seen"]


@pytest.fixture()
def release(tmp_path):
    """Make an unpacked upstream HTCondor; an administrator's script of blahp is an absolute link, as in a package."""
    root = tmp_path / "condor"
    for name in gf.PROGRAMS:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(elf(["libcondor.so", "libc.so.6"]))
    for name in ("lib", "libexec/blahp", "etc/blahp"):
        (root / name).mkdir(parents=True)
    (root / "lib/libcondor.so").write_bytes(elf(["libz.so.1"], "/usr/lib/condor") + VERSION)
    (root / "lib/libz.so.1").write_bytes(elf(["libc.so.6"]))
    (root / "etc/blah.config").write_text("supported_lrms=slurm\n")
    (root / "libexec/blahp/blah.py").write_text("class C:\n    def f(self, v):\n        self.readfp(v)\n")
    (root / "libexec/blahp/pbs_submit.sh").write_text("#!/bin/bash\n")
    name = "slurm_local_submit_attributes.sh"
    (root / "etc/blahp" / name).write_text("#!/bin/bash")
    (root / "libexec/blahp" / name).symlink_to(tmp_path / "etc/blahp" / name)
    return root


def data_of(items, name):
    return tb.content(items[name]).decode("utf-8", "replace")


def test_blahp_is_repaired(release):
    items = gf.upstream_gateway_items(release)
    assert "self.read_file(v)" in data_of(items, "libexec/blahp/blah.py")
    lines = data_of(items, "libexec/blahp/slurm_local_submit_attributes.sh").splitlines()
    assert lines == ["#!/bin/bash", 'echo "#SBATCH --export=NIL"']
    assert data_of(items, "libexec/blahp/pbs_submit.sh") == "#!/bin/bash\n"
    assert data_of(items, "etc/blah.config") == "supported_lrms=slurm\n"


def repaired(release, name, text):
    """Return a script of blahp, with the line as in 23.9.6, as the tarball has it."""
    (release / "libexec/blahp" / name).write_text(text)
    return data_of(gf.upstream_gateway_items(release), f"libexec/blahp/{name}")


def test_the_error_of_qsub_reaches_the_gateway_and_jobs_use_the_directory_of_the_submission(release):
    text = "jobID=`qsub $bls_tmp_file 2> /dev/null | perl -ne 'print'` # actual submission\n"
    assert repaired(release, "sge_submit.sh", text) == text.replace("2> /dev/null ", "")
    text = '    echo "new_home=\\${old_home}/$run_dir"\n'
    found = repaired(release, "blah_common_submit_functions.sh", text)
    assert found == '    echo "new_home=$bls_opt_workdir/$run_dir"\n'


@pytest.mark.parametrize("name", gf.REPAIRS)
def test_a_script_of_another_version_that_is_not_repaired_is_named(release, name):
    repair = gf.REPAIRS[name]
    (release / "libexec/blahp" / name).write_bytes(b"#!/bin/bash\nnew text\n")
    (problem,) = gf.unrepaired(gf.upstream_gateway_items(release))
    assert problem == (
        f"libexec/blahp/{name} of this HTCondor is not repaired, because it lacks {repair.old.decode()!r}: "
        f"{repair.effect}"
    )


@pytest.mark.parametrize("name", gf.REPAIRS)
@pytest.mark.parametrize("text", ["old", "new"])
def test_a_script_that_was_repaired_or_needs_no_repair_is_not_named(release, name, text):
    (release / "libexec/blahp" / name).write_bytes(b"before " + getattr(gf.REPAIRS[name], text) + b" after\n")
    assert gf.unrepaired(gf.upstream_gateway_items(release)) == []


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bsub_gets_only_the_variables_of_lsf(release, tmp_path):
    bsub = tmp_path / "bsub"
    bsub.write_text("#!/bin/sh\nenv\npwd\n")
    bsub.chmod(0o700)
    script = tmp_path / "lsf_submit.sh"
    text = 'bsub_out=`cd && ${lsf_binpath}/bsub -o /dev/null < $bls_tmp_file`\nretcode=$?\necho "$bsub_out"\n'
    script.write_text(
        f"lsf_binpath={tmp_path}; bls_tmp_file=/dev/null\n" + repaired(release, "lsf_submit.sh", text) + "env\n"
    )
    variables = {"CONDOR_CONFIG": "/c", "_CONDOR_ANCESTOR_1": "1", "GLIDEIN_GATEWAY": "/g", "LD_LIBRARY_PATH": "/l"}
    kept = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LSF_ENVDIR": "/lsf/conf", "LANG": "C"}
    printed = subprocess.check_output(["bash", str(script)], env={**variables, **kept}).decode()
    of_bsub, of_script = printed.split(f"\n{tmp_path}\n")
    names = {line.partition("=")[0] for line in of_bsub.splitlines()} - {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names == set(kept)
    assert set(variables) <= {line.partition("=")[0] for line in of_script.splitlines()}


def test_programs_and_libraries_find_each_other(release):
    items = gf.upstream_gateway_items(release)
    search = {
        name: read_elf(tb.content(items[name])).search for name in items if not name.startswith(("etc", gf.BLAHP))
    }
    # Libraries without a path of their own use that of the program.
    assert search == {
        **dict.fromkeys(gf.PROGRAMS, ["$ORIGIN/../lib"]),
        "lib/libcondor.so": ["$ORIGIN"],
        "lib/libz.so.1": [],
    }


def test_the_same_files_give_the_same_tarball(release, tmp_path):
    first, second = (
        tb.TarballDirectory(tmp_path / name, {"native": gf.upstream_gateway_items(release)}) for name in ("a", "b")
    )
    assert first.platforms == second.platforms
    assert first.platforms[0]["htcondor"] == "23.9.6"
    first.write()
    again = tb.TarballDirectory(tmp_path / "a", {"native": gf.upstream_gateway_items(release)})
    assert not again.changed


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("libexec/blahp", "scripts of blahp"),
        ("etc/blah.config", "blah.config"),
        ("sbin/condor_schedd", "condor_schedd"),
    ],
)
def test_a_missing_part_is_named(release, missing, message):
    path = release / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(GlideinError, match=message):
        gf.upstream_gateway_items(release)
