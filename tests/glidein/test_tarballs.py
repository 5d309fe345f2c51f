# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a glidein's choice of a tarball, its download, and its end without a valid one."""

import contextlib
import functools
import http.server
import itertools
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import NOBODY, SHELLS, becomes, limit, run_lib
from test_endings import assert_ended

LIST = """\
# comment
from https://web.example.org
el7 x86_64 2.17 23.0.1 none aa el7.tar.gz
debian13 x86_64 2.38 23.9.6 none bb debian13.tar.gz
el9 x86_64 2.34 23.0.1 none cc el9.tar.gz
arm aarch64 2.17 23.0.1 none dd arm.tar.gz
half a line
also9 x86_64 2.34 25.0.1 none ee also9.tar.gz
"""


def names(shell, arch, glibc):
    printed = run_lib(shell, '. "$0/install.sh"; fitting_tarballs "$1" "$2"', arch, glibc, stdin=LIST).stdout
    return [line.split()[0] for line in printed.splitlines()]


@pytest.mark.parametrize(
    ("arch", "glibc", "expected"),
    [
        ("x86_64", "2.41", ["debian13", "el9", "also9", "el7"]),
        ("x86_64", "2.36", ["el9", "also9", "el7"]),
        ("x86_64", "2.34", ["el9", "also9", "el7"]),
        ("x86_64", "2.9", []),
        ("x86_64", "", ["debian13", "el9", "also9", "el7"]),  # unknown glibc: all are tried
        ("aarch64", "2.34", ["arm"]),
        ("riscv64", "2.41", []),
    ],
)
def test_the_newest_glibc_that_the_node_has_comes_first(shell, arch, glibc, expected):
    assert names(shell, arch, glibc) == expected


@pytest.mark.parametrize(
    ("getconf", "ldd", "version"),
    [
        ("echo glibc 2.34", "echo never", "2.34"),
        ("exit 1", "echo 'ldd (Debian GLIBC 2.41-12+deb13u2) 2.41'", "2.41"),
        ("exit 1", "echo 'ldd (GNU libc) 2.28'", "2.28"),
        ("exit 1", "echo 'musl libc (x86_64)' >&2; exit 1", ""),
    ],
)
def test_version_of_glibc(shell, tmp_path, getconf, ldd, version):
    for name, body in (("getconf", getconf), ("ldd", ldd)):
        (tmp_path / name).write_text("#!/bin/sh\n" + body + "\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": "{}:/usr/bin:/bin".format(tmp_path)}
    assert run_lib(shell, '. "$0/install.sh"; node_glibc', env=environment).stdout.strip() == version


BROKEN = b"#!/bin/sh\necho 'libssl.so.3: cannot open shared object file'\nexit 127\n"


def test_if_one_tarball_does_not_run_the_next_one_is_used(site, shell):
    site.bring("good").add("good", master=BROKEN, name="new", glibc="2.1")
    glidein = site.start(shell).wait_for("registered").signal(signal.SIGTERM)
    status, output = glidein.end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert output.index("tarball new verified") < output.index("tarball native verified")


def test_no_tarball_runs(site, shell):
    site.bring("good", master=BROKEN).add("good", master=BROKEN, name="new", glibc="2.1")
    status, output = site.run(shell)
    assert_ended(site, status, output, 15, "new: libssl.so.3: cannot open shared object file; native: libssl.so.3")
    assert "this node is {} with glibc 2.".format(os.uname().machine) in output


def test_no_tarball_fits(site, shell):
    site.bring("good", name="arm", arch="aarch65").add("good", name="newer", glibc="9.9")
    status, output = site.run(shell)
    assert_ended(site, status, output, 15, "there are: arm (aarch65, glibc >= 2.0), newer (")


@pytest.mark.parametrize("program", ["gzip", "tar", "sha256sum"])
def test_a_node_without_a_program_that_the_glidein_needs(site, any_shell, program):
    programs = tools(site)
    (programs / program).unlink()
    assert_ended(site, *site.run(any_shell, PATH=programs), 15, f"this node has no {program}")


# --- programs that are killed

FILE_UNIT = {"dash": 512, "busybox": 512, "bash": 1024}  # bytes, of `ulimit -f`


@pytest.mark.parametrize(
    ("status", "output", "why"),
    [
        (1, "first\nlast\n\n", "last"),
        (2, "", "status 2"),
        (139, "", "status 139, signal SEGV"),
        (137, "some output", "some output; status 137, signal KILL"),
        (153, "", "status 153, signal XFSZ: a file is larger than the limit, 4194304 bytes"),
        (152, "", "status 152, signal XCPU: the limit of CPU time is reached, 50 s"),
        (255, "", "status 255"),
    ],
)
def test_the_reason_of_a_failure_names_the_signal_and_the_limit_and_is_never_empty(shell, status, output, why):
    script = f'ulimit -f {4194304 // FILE_UNIT[shell]}; ulimit -t 50; . "$0/limits.sh"; failure_of "$@"'
    assert run_lib(shell, script, status, output).stdout.rstrip() == why


def test_a_file_size_limit_that_kills_tar(site, shell):
    """Limit files to 4 MiB, as LSF's -F and Grid Engine's h_fsize do."""
    site.bring("good", {"etc/filler": (b"\0" * 6 * 2**20, 0o644)})
    script = site.home / "glidein.sh"
    limited = f"set -u\nulimit -f {4194304 // FILE_UNIT[shell]}\n"
    script.write_text(script.read_text().replace("set -u\n", limited, 1))
    assert_ended(site, *site.run(shell), 14, "signal XFSZ: a file is larger than the limit, 4194304 bytes")


def test_no_file_is_older_than_the_glidein(site, shell):
    """The tarball's files are of 1970. Nodes remove old files in /tmp, also under a running glidein."""
    (site.home / "files").mkdir()
    (site.home / "files" / "old").write_text("")
    os.utime(site.home / "files" / "old", (0, 0))
    began = site.home.stat().st_mtime
    directory = site.start(shell).wait_for("registered").directory()
    files = [*directory.rglob("*")]
    assert (directory / "condor" / "sbin" / "condor_master") in files and (directory / "files" / "old") in files

    def is_older(path):
        try:
            return path.lstat().st_mtime < began
        except FileNotFoundError:  # the glidein has removed it meanwhile
            return False

    assert [path for path in files if is_older(path)] == []


# The settings of a login environment that changes what programs print, and curl's file of options.
LOGIN = {
    "CDPATH": ".:/tmp",
    "QUOTING_STYLE": "shell-always",
    "TAR_OPTIONS": "--verbose --to-stdout",
    "GZIP": "--verbose",
    "POSIXLY_CORRECT": "1",
    "TIME_STYLE": "+%s",
}


def test_a_login_environment_has_no_influence(site, web, any_shell):
    (site.root / ".curlrc").write_text("fail = nothing\noutput = /dev/null\nproxy = http://127.0.0.1:1\n")
    site.list.write_text("")
    site.add("stubborn", base=web)  # its job is found only by the output of `ls -l`
    site.give_to_user()
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    environment = site.settings(**LOGIN, HOME=site.root, GLIDEIN_GRACE_S=1)
    with (site.root / "output").open("w") as output:
        # A relative call, for which `cd` would print the directory.
        command = [*SHELLS[any_shell], f"{site.home.name}/glidein.sh"]
        process = subprocess.Popen(command, cwd=site.home.parent, env=environment, stdout=output, stderr=output, **user)
    read = (site.root / "output").read_text
    try:
        assert becomes(lambda: "registered with" in read() or process.poll() is not None), read()
        assert "registered with" in read(), read()
    finally:
        process.terminate()
        status = process.wait(120)
    assert_ended(site, status, read(), 143, "signal TERM")


# --- from a web server


class Handler(http.server.SimpleHTTPRequestHandler):
    fails = []  # how the next requests fail

    def do_GET(self):
        if not self.fails:
            return super().do_GET()
        failure = self.fails.pop()
        if failure == "reset":
            # The connection ends with RST.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return self.connection.close()
        return self.send_error(failure)

    def log_message(self, *unused):
        pass


@pytest.fixture()
def web(site):
    """Yield the address of a web server for `root/www` of the site."""
    (site.root / "www").mkdir()
    handler = functools.partial(Handler, directory=str(site.root / "www"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield "http://127.0.0.1:{}".format(server.server_port)
    server.shutdown()
    thread.join()
    server.server_close()


def tools(site, *wanted):
    """Return a PATH, to which glidein.sh adds nothing: the programs of a node, with only these of curl and wget."""
    script = site.home / "glidein.sh"
    script.write_text(script.read_text().replace(':/usr/bin:/bin:/usr/sbin:/sbin"', '"'))
    directory = site.root / "bin"
    directory.mkdir()
    for place in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(place).iterdir():
            if program.name not in ("curl", "wget") and not (directory / program.name).exists():
                (directory / program.name).symlink_to(program)
    for name in wanted:
        found = shutil.which(name)
        (directory / name).symlink_to(found or shutil.which("busybox"))
    return directory


def from_web(site, web, shell, path):
    """Start a glidein whose tarball is on the web server, with this PATH."""
    site.list.write_text("")
    site.add("good", base=web)
    return site.start(shell, PATH=path)


@pytest.mark.parametrize("program", ["curl", "wget"])
def test_download_with_curl_or_wget(site, web, shell, program):
    if not shutil.which(program) and program != "wget":
        pytest.skip(program + " is not installed: as root, apt-get install " + program)
    glidein = from_web(site, web, shell, tools(site, program)).wait_for("registered")
    assert not (glidein.directory() / "tmp" / "more.tar.gz").exists()
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_a_download_is_tried_again(site, web, any_shell):
    Handler.fails[:] = [503, "reset"]
    glidein = from_web(site, web, any_shell, tools(site, "curl", "wget")).wait_for("registered")
    assert Handler.fails == []
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_a_command_is_repeated_with_growing_pauses_and_keeps_its_status(shell):
    script = """
        . "$0/limits.sh"
        sleep() { printf 'sleep %s ' "$1"; }
        fail() { printf 'try '; return 22; }
        retry 5 fail; echo "$?"
        retry 2 true; echo "$?"
    """
    assert run_lib(shell, script).stdout.splitlines() == [
        "try sleep 1 try sleep 4 try sleep 9 try sleep 16 try 22",
        "0",
    ]


def test_download_without_curl_and_wget(site, web, shell):
    status, output = from_web(site, web, shell, tools(site)).end()
    assert_ended(site, status, output, 20, "this node has neither curl nor wget")


@pytest.mark.parametrize(("path", "words"), [("/other", "/other/more-"), ("", "http://127.0.0.1:1/more-")])
def test_download_of_a_missing_file_or_from_a_missing_server(site, web, shell, path, words):
    limit(site, "DOWNLOADS", 1)
    site.list.write_text("")
    site.add("good", base=web + path if path else "http://127.0.0.1:1")
    status, output = site.run(shell)
    assert_ended(site, status, output, 20, words)
    assert " cannot be downloaded: " in output


def test_a_signal_while_a_server_does_not_answer(site, shell):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.list.write_text("")
        site.add("good", base="http://127.0.0.1:{}".format(silent.getsockname()[1]))
        glidein = site.start(shell).wait_for("scratch directory")
        silent.accept()[0].settimeout(60)
        assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_a_download_with_another_checksum_is_refused(site, web, shell):
    site.list.write_text("")
    site.add("good", base=web)
    (there,) = (site.root / "www").iterdir()
    there.write_bytes(b"<html>Welcome to the hotel's network</html>")
    assert_ended(site, *site.run(shell), 12, "{}/{} is damaged".format(web, there.name))


# --- nodes with unusual file systems


@pytest.fixture()
def mounted(site):
    """Return a function that mounts a tmpfs with these options at the site's scratch directory."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a file system")

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", "mode=1777," + options, "tmpfs", str(site.scratch)]
        done = subprocess.run(command, stderr=-1, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip("this machine does not let root mount a tmpfs: " + done.stderr.strip())

    yield mount
    subprocess.run(["umount", "--lazy", str(site.scratch)], timeout=120, check=False, stderr=-1)


def test_noexec(site, shell, mounted):
    mounted("noexec,size=200m")
    site.give_to_user()
    status, output = site.run(shell)
    assert_ended(site, status, output, 15, "is mounted noexec: use another scratch directory")


def test_too_little_room_ends_the_glidein_before_it_unpacks(site, shell, mounted):
    mounted("size=32m")
    assert_ended(site, *site.run(shell), 13, "has 32 MB free; GLIDEIN_MIN_DISK_MB=1 and HTCondor itself need 61")


def test_a_configuration_of_which_a_part_cannot_be_written_ends_the_glidein(site, shell):
    script = site.home / "lib" / "configure.sh"
    script.write_text(script.read_text().replace("config_security() {", "config_security() {\n  return 1"))
    assert_ended(site, *site.run(shell), 13, "condor_config cannot be written")


def test_with_a_minimum_jobs_get_the_free_disk(site, shell, mounted):
    mounted("size=200m")
    site.give_to_user()
    glidein = site.start(shell, GLIDEIN_DISK_MB=8000000, GLIDEIN_MIN_DISK_MB=100).wait_for("registered with")
    assert "has 200 MB free: jobs get 140 MB instead of GLIDEIN_DISK_MB=8000000" in glidein.output
    assert f"\nDISK = {140 * 1024}\n" in (glidein.directory() / "condor_config").read_text()
    glidein.signal(signal.SIGTERM).end()


def test_a_whole_node_with_less_than_the_stated_minimum_is_refused(site, shell, mounted):
    mounted("size=200m")
    site.give_to_user()
    found = site.run(shell, GLIDEIN_DISK_MB=8000000, GLIDEIN_MIN_DISK_MB=150)
    assert_ended(site, *found, 13, "has 200 MB free; GLIDEIN_MIN_DISK_MB=150 and HTCondor itself need 210")


def test_a_disk_that_becomes_full_while_unpacking(site, shell, mounted):
    mounted("size=70m")
    site.bring("good", {"etc/filler": (b"\0" * 90 * 2**20, 0o644)})
    assert_ended(site, *site.run(shell), 13, "is full: ")


def test_a_file_system_without_free_inodes_ends_the_glidein_like_a_full_one(site, shell, mounted):
    mounted("size=200m,nr_inodes=400")
    site.give_to_user()
    limit(site, "DISK_FULL_S", 1)
    glidein = site.start(shell).wait_for("registered")
    others = site.scratch / "of another user"
    others.mkdir()

    numbers = itertools.count()

    def fill(most=1):
        """Make up to so many more files; return whether the glidein has noticed that no more can be made."""
        noticed = "is full, no file can be made" in glidein.output
        with contextlib.suppress(OSError):
            for number in () if noticed else itertools.islice(numbers, most):
                (others / str(number)).touch()
        return noticed

    fill(400)
    # The glidein makes and removes files meanwhile. What it has removed is used by the next call.
    assert becomes(fill), glidein.output
    # The files that it has kept for the daemons are enough for its own end, but are no room for jobs.
    assert becomes(lambda: glidein.process.poll() is not None), glidein.output
    shutil.rmtree(others)
    status, output = glidein.end()
    assert_ended(site, status, output, 13, "is full: few files can be made after ")
    assert "has room again" not in output


def test_a_read_only_home_and_an_empty_environment(site, shell):
    """Run the glidein as with `env -i`, with nothing but the settings."""
    for path in (site.home, site.home / "lib"):
        path.chmod(0o555)
    glidein = site.start(shell, PATH=None, HOME="/nonexistent").wait_for("registered")
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")
