# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server in a process of its own, for tests that look at it from outside.

As a program, it is that process: `python running.py CONFIG OPTIONS`, two files; in OPTIONS (JSON), "groups" are served
as if a schedd had answered so, "patience" has the server's time limits. Everything else is what `glidein-demand serve`
runs.
"""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import trustme
from glidein_demand import config
from glidein_demand.store.database import Database
from glidein_demand.store.tokens import Tokens

COMMAND = [sys.executable, "-m", "glidein_demand.cli"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url, data=None, headers=None, context=None, timeout=20):
    """(status, body) of an answer, errors included."""
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=context) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def certificate(folder, name="localhost"):
    """{"ca", "certificate", "key"}: files of a new authority and its certificate for `name`."""
    authority = trustme.CA()
    issued = authority.issue_cert(name, "127.0.0.1")
    files = {part: folder / f"{part}.pem" for part in ("ca", "certificate", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    files["certificate"].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(files["key"])
    return files


def toml(value):
    """A TOML value: JSON's strings, numbers, booleans and lists of these are written the same."""
    return json.dumps(value)


class Running:
    """A server that runs in `folder`, with tokens of `sites`. `stderr` has what it wrote."""

    def __init__(self, folder, sites=(), groups=None, tls=None, patience=None, **server):
        self.folder = Path(folder)
        self.port = free_port()
        self.context = None
        settings = {"bind": "127.0.0.1", "port": self.port, "max_requests_per_minute": 1_000_000, **server}
        if tls is not None:
            self.context = ssl.create_default_context(cafile=str(tls["ca"]))
            settings.update(tls_certificate=str(tls["certificate"]), tls_key=str(tls["key"]))
        self.url = f"{'http' if tls is None else 'https'}://localhost:{self.port}"
        self.database = f"sqlite:///{self.folder}/state.db"
        lines = [f"server.{name} = {toml(value)}" for name, value in settings.items()]
        lines += [
            f"state.database = {toml(self.database)}",
            'pool.collector = "127.0.0.1:1"',
            "pool.refresh_seconds = 1",
        ]
        lines += ["pool.stale_seconds = 604800"]  # the groups below are read once
        self.config = self.folder / "config.toml"
        self.config.write_text("\n".join(lines) + "\n")
        (self.folder / "condor_config").write_text("LOCAL_DIR = /nonexistent\n")
        self.options = {"groups": groups, "patience": patience}
        (self.folder / "options.json").write_text(json.dumps(self.options))
        store = Database(self.database)
        tokens = Tokens(store)
        self.tokens = {site: tokens.create(site) for site in sites}
        store.close()
        self.process = None

    @property
    def stderr(self):
        return (self.folder / "stderr").read_text()

    def start(self):
        """Start, and wait until it answers."""
        program = [*COMMAND, "serve", "--config", str(self.config)]
        if any(self.options.values()):
            program = [sys.executable, __file__, str(self.config), str(self.folder / "options.json")]
        with (self.folder / "stderr").open("a") as stderr:
            self.process = subprocess.Popen(
                program, stderr=stderr, env={**os.environ, "CONDOR_CONFIG": str(self.folder / "condor_config")}
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.stderr
            with contextlib.suppress(OSError):
                return self.get("/healthz") and self
            time.sleep(0.05)
        raise AssertionError(f"no answer within 60 s: {self.stderr}")

    def get(self, path, **options):
        return fetch(f"{self.url}{path}", context=self.context, **options)

    def call(self, method, params=None, site=None, **options):
        """(status, answer as JSON) of a call with the token of `site`."""
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1}).encode()
        headers = {"Authorization": f"Bearer {self.tokens[site]}"} if site else {}
        status, text = fetch(f"{self.url}/jsonrpc", body, headers, self.context, **options)
        return status, json.loads(text)

    def connect(self, timeout=30.0):
        """A TCP connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def kill(self):
        """End it at once, in the middle of whatever it does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def end(self, seconds=60):
        """Ask it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_error):
        if self.process.poll() is None:
            self.kill()


def main(path, options):
    from glidein_demand import service
    from glidein_demand.web.instant import is_instant
    from glidein_demand.web.server import Patience, Server

    settings, options = config.load(Path(path)), json.loads(Path(options).read_text())
    service.log_to_stderr()
    built = service.build(settings)
    if options["groups"]:
        answer = json.dumps({"groups": options["groups"], "unreadable": []}).encode()
        built.parts.readings.demand_read("cm", [answer], int(time.time()))
    built.reloader.start()
    Server(built.app, settings, Patience(**options["patience"] or {}), is_instant).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
