# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real command: what it says about a bad configuration, and that it serves, and ends when asked."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from conftest import TOKEN

COMMAND = [sys.executable, "-m", "glidein_demand.cli"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def token_file(folder, content=TOKEN, mode=0o600):
    path = folder / "token"
    path.write_text(content)
    path.chmod(mode)
    return path


def end_of(folder, toml, command="serve"):
    """Start with a configuration that cannot be used; the one line it ends with."""
    path = folder / "config.toml"
    path.write_text(toml)
    done = subprocess.run(
        [*COMMAND, command, "--config", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("server.port = 0", ["server.port = 0", "integer from 1 to 65535"]),
        ("server.bnd = 'x'", ["server.bnd", "did you mean server.bind?"]),
        ("server.port = ", ["not a TOML file"]),
        ("pool.constraint = 'WantX =='", ["pool.constraint = 'WantX =='", "not a ClassAd expression"]),
        ("server.token_file = '/nonexistent/token'", ["server.token_file = '/nonexistent/token'", "No such file"]),
        ("server.bind = '192.0.2.1'", ["server.bind = '192.0.2.1'", "cannot listen", "address of this host"]),
        ("server.bind = 'no such host'", ["server.bind = 'no such host'", "address of this host"]),
    ],
)
def test_a_bad_configuration_ends_the_start_with_one_line(tmp_path, toml, words):
    line = end_of(tmp_path, toml)
    assert line.startswith("glidein-demand: ")
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(
    ("content", "mode", "word"),
    [
        (TOKEN, 0o644, "mode 0644"),
        ("short", 0o600, "at least 16"),
        ("a b" * 9, 0o600, "without spaces"),
        ("", 0o600, "16"),
    ],
)
def test_an_unfit_token_file_ends_the_start_and_is_not_quoted(tmp_path, content, mode, word):
    path = token_file(tmp_path, content, mode)
    line = end_of(tmp_path, f"server.token_file = '{path}'", command="check")
    assert "server.token_file" in line
    assert word in line
    assert not content or content not in line


def test_a_port_in_use_ends_the_start(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = end_of(tmp_path, f"server.bind = '127.0.0.1'\nserver.port = {port}")
    assert f"server.port = {port}" in line
    assert "in use" in line


def test_check_accepts_a_good_configuration_silently(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(f"server.token_file = '{token_file(tmp_path)}'\npool.constraint = 'WantX == 1'\n")
    done = subprocess.run(
        [*COMMAND, "check", "--config", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def server(tmp_path):
    """A running server whose HTCondor does not answer."""
    port = free_port()
    (tmp_path / "condor_config").write_text("LOCAL_DIR = /nonexistent\n")
    (tmp_path / "config.toml").write_text(
        f"server.bind = '127.0.0.1'\nserver.port = {port}\nserver.token_file = '{token_file(tmp_path)}'\n"
        "server.max_body_bytes = 2000\npool.collector = '127.0.0.1:1'\n"
    )
    process = subprocess.Popen(
        [*COMMAND, "serve", "--config", str(tmp_path / "config.toml")],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "CONDOR_CONFIG": str(tmp_path / "condor_config")},
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        for _unused in range(200):
            try:
                fetch(f"{url}/healthz")
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield process, url
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        process.stderr.close()


def fetch(url, data=None, headers=None):
    """(status, body) of an answer, errors included."""
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_serves_without_any_htcondor_and_says_what_is_wrong(server):
    _process, url = server
    body = json.dumps({"jsonrpc": "2.0", "method": "get_demand", "params": {}, "id": 1}).encode()
    failed = []
    for _unused in range(100):
        status, text = fetch(f"{url}/jsonrpc", body, {"Authorization": f"Bearer {TOKEN}"})
        assert status == 200
        failed = json.loads(text)["result"]["schedds"]["failed"]
        if failed:
            break
        time.sleep(0.2)
    assert failed[0]["error"]
    assert fetch(f"{url}/healthz")[0] == 503
    assert "does not answer" in fetch(f"{url}/")[1]


def test_a_body_over_the_limit_is_refused_by_the_running_server(server):
    _process, url = server
    assert fetch(f"{url}/jsonrpc", b"x" * 4000)[0] == 413
    assert fetch(f"{url}/jsonrpc", b"x" * 100_000)[0] == 413


def test_it_ends_at_once_and_cleanly_when_asked(server):
    process, _url = server
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert "Traceback" not in process.stderr.read()
