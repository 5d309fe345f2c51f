# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of copies of the daemons' logs while a glidein runs: to the log directory, and to a bucket by a signed form."""

import email.parser
import email.policy
import http.server
import io
import signal
import tarfile
import threading

import pytest
from conftest import TOKEN, becomes, limit, processes_in, program, run_lib, wait_for_round
from test_endings import assert_ended
from test_tarballs import tools

FORM = "url {}\nkey glidein-logs/site-1/\nx-amz-algorithm AWS4-HMAC-SHA256\npolicy eyJ9\nx-amz-signature 0a1b\n"


class Bucket(http.server.ThreadingHTTPServer):
    """A server that stores posted forms. It does not check signatures: tests/e2e/glideins does."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.posts = []
        self.status = 204
        self.answers = threading.Event()
        self.answers.set()
        self.url = f"http://127.0.0.1:{self.server_port}/logs"


class Handler(http.server.BaseHTTPRequestHandler):
    """A handler that stores {name of the field: bytes} of each request."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.answers.wait(120)
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
        assert not message.defects
        fields = {part.get_param("name", header="Content-Disposition"): part for part in message.iter_parts()}
        self.server.posts.append({name: part.get_payload(decode=True) for name, part in fields.items()})
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *unused):
        pass


@pytest.fixture()
def bucket(site):
    server = Bucket()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    form = site.root / "log_s3"
    form.write_text(FORM.format(server.url))
    form.chmod(0o600)
    yield server
    server.answers.set()
    server.shutdown()
    thread.join()
    server.server_close()


def wait(glidein, look):
    assert becomes(lambda: look() or glidein.process.poll() is not None), glidein.output
    assert look(), glidein.output


def logs_in(archive):
    """Return {name: text} of the files of an uploaded archive."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
        return {
            member.name: members.extractfile(member).read().decode()
            for member in members.getmembers()
            if member.isfile()
        }


def test_logs_are_copied_while_the_glidein_runs(site, shell):
    glidein = site.start(shell, GLIDEIN_LOG_INTERVAL_S=1).wait_for("registered")
    scratch = glidein.directory()
    with (scratch / "log" / "StartLog").open("a") as log:
        log.write("x" * 300000 + f"\nfirst line with {TOKEN} in it\n")
    copies = site.logs / f"glidein_123_4_5_.server_{scratch.suffix[1:]}"
    copy = copies / "StartLog"
    wait(glidein, lambda: copy.exists() and "first line" in copy.read_text())
    assert copy.read_text().endswith("\nfirst line with <token> in it\n")
    assert copy.stat().st_size <= 262144
    assert copy.stat().st_mode & 0o777 == 0o600
    unchanged = (copies / "MasterLog").stat().st_mtime_ns
    with (scratch / "log" / "StartLog").open("a") as log:
        log.write("second line\n")
    wait(glidein, lambda: "second line" in copy.read_text())
    assert (copies / "MasterLog").stat().st_mtime_ns == unchanged, "only logs that have changed are copied"
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")
    assert "got TERM" in (copies / "MasterLog").read_text()
    assert not list(copies.glob("*.new"))


def test_without_an_interval_logs_are_copied_only_at_the_end(site, any_shell):
    limit(site, "RENEW_S", 1)
    glidein = site.start(any_shell).wait_for("registered")
    for _round in (1, 2):  # between the two, the glidein does all that it does periodically
        wait_for_round(glidein)
    assert not list(site.logs.iterdir())
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")
    assert list(site.logs.iterdir())


def test_a_copy_that_hangs_does_not_disturb_the_glidein(site, any_shell):
    # As on a file server that does not respond. (The copy at the end uses tail, too, but has a time limit.)
    hangs = f'case $* in "-c 262144 "*) touch {site.root}/hangs; exec sleep 300 ;; esac\nexec {{real}} "$@"'
    path = program(site, "tail", hangs)
    site.give_to_user()
    glidein = site.start(any_shell, GLIDEIN_LOG_INTERVAL_S=1, PATH=path).wait_for("registered")
    wait(glidein, (site.root / "hangs").exists)
    glidein.wait_for("the previous copy of the daemons' logs has not ended")
    (site.root / "programs" / "tail").unlink()
    status, output = glidein.signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert "the daemons' logs are in" in output
    assert not processes_in(site.scratch)


def test_logs_are_uploaded_by_the_form(site, bucket, shell):
    glidein = site.start(
        shell, GLIDEIN_LOG_INTERVAL_S=1, GLIDEIN_LOG_S3=site.root / "log_s3", GLIDEIN_LOG_DIR="-"
    ).wait_for("registered")
    name = f"glidein_123_4_5_.server_{glidein.directory().suffix[1:]}"
    wait(glidein, lambda: bucket.posts)
    first = bucket.posts[0]
    assert first["key"].decode() == f"glidein-logs/site-1/{name}.tar.gz"
    assert list(first)[-1] == "file", "S3 ignores fields after the file"
    assert {key: first[key].decode() for key in first if key not in ("key", "file")} == {
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "policy": "eyJ9",
        "x-amz-signature": "0a1b",
    }
    assert "starting as good\n" in logs_in(first["file"])[f"{name}/MasterLog"]
    status, output = glidein.signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert "cannot be uploaded" not in output
    last = bucket.posts[-1]
    assert last["key"] == first["key"]
    assert "got TERM" in logs_in(last["file"])[f"{name}/MasterLog"]


def test_logs_with_a_token_are_uploaded_without_it(site, bucket, any_shell):
    status, output = site.bring("crash").run(any_shell, GLIDEIN_LOG_S3=site.root / "log_s3")
    assert_ended(site, status, output, 18, "status 44")
    (logs,) = [logs_in(post["file"]) for post in bucket.posts]
    (master,) = [text for name, text in logs.items() if name.endswith("/MasterLog")]
    assert "ERROR with <token> in it" in master


def test_a_failed_upload_is_one_line(site, bucket, any_shell):
    bucket.status = 403
    glidein = site.start(any_shell, GLIDEIN_LOG_INTERVAL_S=1, GLIDEIN_LOG_S3=site.root / "log_s3").wait_for(
        "registered"
    )
    glidein.wait_for(f"the daemons' logs cannot be uploaded to {bucket.url}: ")
    status, output = glidein.signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    line = next(line for line in output.splitlines() if "cannot be uploaded to" in line)
    assert "403" in line
    assert "0a1b" not in output and "policy" not in output


def test_a_node_without_curl_uploads_nothing(site, any_shell):
    (site.root / "log_s3").write_text(FORM.format("http://127.0.0.1:1/logs"))
    status, output = site.bring("crash").run(any_shell, GLIDEIN_LOG_S3=site.root / "log_s3", PATH=tools(site))
    assert_ended(site, status, output, 18, "status 44")
    (line,) = [line for line in output.splitlines() if "cannot be uploaded to http://127.0.0.1:1/logs: " in line]
    assert "curl: not found" in line


def test_a_missing_form_is_reported(site, any_shell):
    status, output = site.bring("crash").run(any_shell, GLIDEIN_LOG_S3=site.root / "none")
    assert_ended(site, status, output, 18, "status 44")
    assert f"the daemons' logs cannot be uploaded: GLIDEIN_LOG_S3={site.root}/none is missing" in output


def test_a_server_that_does_not_respond_does_not_keep_the_glidein(site, bucket, any_shell):
    bucket.answers.clear()
    limit(site, "upload_logs", 1)
    status, output = site.bring("crash").run(any_shell, GLIDEIN_LOG_S3=site.root / "log_s3")
    assert_ended(site, status, output, 18, "status 44")
    assert "the daemons' logs could not be uploaded within 10 s" in output
    assert "glidein: summary {" in output.splitlines()[-2]


def lib(shell, script, directory):
    text = '. "$0/run.sh"; . "$0/limits.sh"; . "$0/logs.sh"; SCRATCH=$1; ' + script
    done = run_lib(shell, text, directory)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture()
def two_logs(tmp_path):
    for name in ("tmp", "log", "logs"):
        (tmp_path / name).mkdir()
    for name in ("MasterLog", "StartLog"):
        (tmp_path / "log" / name).write_text("line\n")
    return tmp_path


def test_logs_that_could_not_be_copied_are_copied_in_the_next_round(shell, two_logs):
    script = """
        GLIDEIN_LOG_DIR=$SCRATCH/logs NAME=name
        copy_log() { return 1; }
        copy_logs; echo "$?"
        copy_log() { echo "${1##*/}"; }
        copy_logs; copy_logs
    """
    assert lib(shell, script, two_logs) == ["1", "MasterLog", "StartLog"]


def test_an_incomplete_archive_is_not_uploaded(shell, two_logs):
    script = """
        NAME=name upload=$SCRATCH/tmp/upload; mkdir -p "$upload/$NAME"
        without_tokens() { return 1; }
        pack_logs; echo "$?"; ls "$upload"
    """
    assert lib(shell, script, two_logs) == ["1", "name"]
