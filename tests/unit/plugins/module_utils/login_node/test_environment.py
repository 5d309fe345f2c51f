# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the facts of a login node other than its batch system."""

import json
import os
import socket
import threading

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import CommandTimeoutError, OutputError
from ansible_collections.glidein.ops.plugins.module_utils.login_node import environment
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program
from hypothesis import given
from hypothesis import strategies as st

# Lines of /proc/mounts of RHEL 8 and 9 hosts with these file systems.
MOUNTS = """\
/dev/mapper/rhel-root / xfs rw,relatime 0 0
proc /proc proc rw 0 0
auto.home /home autofs rw,relatime,fd=7,pgrp=1,timeout=300 0 0
nas1:/export/home/pilot /home/pilot nfs4 rw,vers=4.2,addr=10.1.1.1 0 0
10.10.1.1@o2ib:10.10.1.2@o2ib:/scratch /scratch lustre rw,flock 0 0
/dev/nvme0n1 /scratch/local ext4 rw 0 0
gpfs1 /gpfs/with\\040space gpfs rw 0 0
cvmfs2 /cvmfs/icecube.opensciencegrid.org fuse ro,nosuid 0 0
cvmfs2 /cvmfs/config-osg.opensciencegrid.org fuse ro,nosuid 0 0
dfs /data fuse.glusterfs rw 0 0
"""
# df -Pk of coreutils 8.30 and 9.1.
DF = """\
Filesystem                 1024-blocks     Used Available Capacity Mounted on
nas1:/export/home/pilot       10485760  2097152   8388608      20% /home/pilot
"""


@pytest.fixture
def commands(tmp_path):
    """Return an environment whose PATH has some commands: {name: shell script}."""

    def writer(scripts, **variables):
        for name, script in scripts.items():
            write_program(tmp_path / "bin" / name, f"#!/bin/sh\n{script}\n")
        return dict(variables, PATH=str(tmp_path / "bin"))

    return writer


def read(env, mounts=MOUNTS, home="/home/pilot", timeout_s=30, connect=()):
    parsed = environment.parse_mounts(mounts)
    found, gaps = environment.read_environment(env, timeout_s, parsed, home, "pilot", connect)
    json.dumps(found)
    return found, gaps


# -- text of the system, file systems ---------------------------------------------------------------------------------


mounts = environment.parse_mounts(MOUNTS)
ADDRESS = environment.parse_address
# (function, its arguments, its result)
PARSED = [
    (environment.is_network_path, ("/home/pilot", mounts), True),
    (environment.is_network_path, ("/home/pilot/x/../y", mounts), True),
    (environment.is_network_path, ("/home/other", mounts), None),  # autofs: not mounted
    (environment.is_network_path, ("/homes/pilot", mounts), False),
    (environment.is_network_path, ("/var/spool", mounts), False),
    (environment.is_network_path, ("/scratch/pilot", mounts), True),
    (environment.is_network_path, ("/scratch/local/pilot", mounts), False),
    (environment.is_network_path, ("/gpfs/with space/x", mounts), True),
    (environment.is_network_path, ("/data", mounts), True),
    (environment.is_network_path, ("/home", environment.parse_mounts("")), None),
    (
        environment.cvmfs_repositories,
        (mounts,),
        ["config-osg.opensciencegrid.org", "icecube.opensciencegrid.org"],
    ),
    (environment.parse_df, (DF,), (8192, "/home/pilot")),
    (environment.parse_df, ("x - - - - /cvmfs\n",), (None, "/cvmfs")),
    (environment.parse_version, ("apptainer version 1.3.4\n",), "1.3.4"),
    (environment.parse_version, ("singularity-ce version 4.1.0-bionic\n",), "4.1.0-bionic"),
    (environment.parse_version, ("singularity version 3.8.7-1.el8\n",), "3.8.7-1.el8"),
    (environment.parse_version, ("2.6.1-dist\n",), "2.6.1-dist"),
    (ADDRESS, ("cm.example.org:9618",), ("cm.example.org", 9618)),
    (ADDRESS, ("[2001:db8::1]:9618",), ("2001:db8::1", 9618)),
    (ADDRESS, ("https://demand.example.org/rpc",), ("demand.example.org", 443)),
    (ADDRESS, ("http://user:pw@demand.example.org:11001?x",), ("demand.example.org", 11001)),
    # The default port is that of a host without a scheme.
    (ADDRESS, ("cm.example.org", 9618), ("cm.example.org", 9618)),
    (ADDRESS, ("https://cm.example.org", 9618), ("cm.example.org", 443)),
]


@pytest.mark.parametrize("function, given, expected", PARSED, ids=lambda value: getattr(value, "__name__", None))
def test_text_of_the_system_is_parsed(function, given, expected):
    assert function(*given) == expected


INVALID = ("", "cm", "cm:", "cm:x", "cm:0", "cm:70000", "2001:db8::1:9618", "ftp://cm", ":1")


@pytest.mark.parametrize("given", [*((address,) for address in INVALID), ("ftp://cm.example.org", 9618)])
def test_invalid_addresses(given):
    with pytest.raises(ValueError):
        environment.parse_address(*given)


def test_home_and_scratch(commands):
    script = """
case "$2" in
  /home/pilot) echo "nas:/h 10 1 8388608 20% /home/pilot" ;;
  /p/scratch) echo "lustre 10 1 921600000 20% /scratch" ;;
  /scratch/pilot) echo "lustre 10 1 1048576 20% /scratch" ;;
  *) echo "df: $2: No such file or directory" >&2; exit 1 ;;
esac"""
    env = commands({"df": script}, SCRATCH="/p/scratch", WORK="relative", LOCAL="/p/scratch/", PSCRATCH="/gone")
    found, gaps = read(env)
    assert (found["home"], found["home_free_mb"], found["home_network"]) == ("/home/pilot", 8192, True)
    assert found["scratch"] == [
        {"path": "/p/scratch", "variable": "SCRATCH", "free_mb": 900000, "network": True},
        {"path": "/scratch/pilot", "variable": None, "free_mb": 1024, "network": True},
    ]
    # A directory from a variable must exist; the others are guesses.
    assert [gap["what"] for gap in gaps] == ["scratch /gone"]
    assert gaps[0]["command"] == "df -Pk /gone"


def test_a_file_server_that_does_not_answer(commands, monkeypatch):
    monkeypatch.setattr(environment, "_STEP_TIMEOUT_S", 0.3)
    found, gaps = read(commands({"df": "exec /bin/sleep 600"}))
    assert (found["home_free_mb"], found["home_network"]) == (None, True)  # by its path
    assert gaps[0]["what"] == "home"
    assert "gave no answer within" in gaps[0]["error"]


# -- software --------------------------------------------------------------------------------------------------------


def test_containers(commands, tmp_path):
    env = commands({"df": "exit 1", "apptainer": "echo apptainer version 1.3.4"})
    (tmp_path / "bin" / "singularity").symlink_to("apptainer")
    found, gaps = read(env)
    assert found["containers"] == {"apptainer": "1.3.4"}
    assert [gap["what"] for gap in gaps] == ["home"]
    (tmp_path / "bin" / "singularity").unlink()
    found, gaps = read(commands({"apptainer": "exit 1", "singularity": "echo no license >&2; exit 3"}))
    assert found["containers"] == {}
    assert gaps[-1]["what"] == "version of singularity"
    assert "no license" in gaps[-1]["error"]


def test_environment_modules(commands, monkeypatch):
    assert read(commands({}, LMOD_CMD="/opt/lmod/libexec/lmod"))[0]["modules"]
    assert read(commands({}, MODULESHOME="/usr/share/Modules"))[0]["modules"]
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    assert not read(commands({}))[0]["modules"]


# -- the login shell -------------------------------------------------------------------------------------------------


def test_variables_that_only_a_login_shell_has(tmp_path):
    (tmp_path / ".profile").write_text(
        "echo Welcome to the cluster\nexport SCRATCH=/s/pilot OTHER=theirs PATH=/opt/slurm/bin:$PATH\n"
    )
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OTHER": "ours"}
    merged, gaps = environment.login_environment(environ, "/bin/sh", 600)
    assert gaps == []
    assert (merged["SCRATCH"], merged["OTHER"]) == ("/s/pilot", "ours")
    directories = merged["PATH"].split(":")
    assert directories[:2] == ["/usr/bin", "/bin"]
    assert "/opt/slurm/bin" in directories
    assert len(directories) == len(set(directories))


@pytest.mark.parametrize(
    ("profile", "limit_s", "error"),
    [
        ("exec sleep 600", 0.6, "gave no answer within"),
        ("exit 0", 600, "did not run the command"),
        ("exit 3", 600, "3"),
    ],
)
def test_a_profile_that_hangs_or_ends_leaves_a_gap(tmp_path, profile, limit_s, error):
    (tmp_path / ".profile").write_text(profile + "\n")
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    merged, gaps = environment.login_environment(environ, "/bin/tcsh", limit_s)
    assert merged == environ
    assert gaps[0]["what"] == "environment of a login shell"
    assert error in gaps[0]["error"]


def test_directories_of_path_whose_file_server_does_not_answer(tmp_path, monkeypatch):
    (tmp_path / "dead").mkdir()
    (tmp_path / "alive").mkdir()
    path = f"/usr/bin:{tmp_path}/dead:{tmp_path}/alive"
    mounts = f"/dev/sda / ext4 rw 0 0\nnas:/x {tmp_path}/dead nfs rw 0 0\nnas:/y {tmp_path}/alive nfs rw 0 0\n"
    runs = []

    def run(runner, argv, stdin=os.devnull):
        runs.append(argv[-1])
        if argv[-1].endswith("dead"):
            raise CommandTimeoutError("no answer", argv)
        return ""

    monkeypatch.setattr(Runner, "run", run)
    kept, gaps = environment.responsive_path({"PATH": path}, 10, environment.parse_mounts(mounts))
    assert kept == f"/usr/bin:{tmp_path}/alive"
    assert runs == [f"{tmp_path}/dead", f"{tmp_path}/alive"]  # no process for a local directory
    assert [gap["what"] for gap in gaps] == [f"directory {tmp_path}/dead of PATH"]


# -- network ---------------------------------------------------------------------------------------------------------


def test_proxies_with_a_password_are_left_out():
    assert environment.proxies(
        {
            "HTTPS_PROXY": "http://proxy.example.edu:3128/",
            "http_proxy": "pilot:s3c@ret@proxy:3128",
            "no_proxy": "localhost,.example.edu",
            "ALL_PROXY": "socks5://proxy:1080",
            "ftp_proxy": "",
        }
    ) == {
        "https_proxy": "http://proxy.example.edu:3128/",
        "no_proxy": "localhost,.example.edu",
        "all_proxy": "socks5://proxy:1080",
    }


def test_connections():
    with socket.socket() as listening, socket.socket() as closed:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        closed.bind(("127.0.0.1", 0))  # bound, not listening: the port is refused
        addresses = ["127.0.0.1:{}".format(each.getsockname()[1]) for each in (listening, closed)]
        found = environment.try_connections(addresses, 5)
    assert [each["address"] for each in found] == addresses
    assert [each["error"] for each in found] == ["", "Connection refused"]


def test_a_look_up_that_hangs_is_not_waited_for(monkeypatch):
    end = threading.Event()

    def hang(address, timeout):
        end.wait(600)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", hang)
    assert environment.try_connections(["cm:9618"], 0.1) == [{"address": "cm:9618", "error": "no answer within 0.1 s"}]
    end.set()


# -- invalid output ----------------------------------------------------------------------------------------------------


@given(st.text(max_size=300))
def test_any_text_of_the_system_is_parsed_or_refused(text):
    mounts = environment.parse_mounts(text)
    assert environment.is_network_path("/home/x", mounts) in (True, False, None)
    environment.cvmfs_repositories(mounts)
    for parse in (environment.parse_df, environment.parse_environment, environment.parse_version):
        try:
            parse(text)
        except OutputError as error:
            assert str(error)
