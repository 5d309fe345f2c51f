# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server in a process of its own, for tests that need a real one.

As a program, it is that process: `python running.py CONFIG GROUPS`, two files. It serves the groups (JSON) as if a
schedd had returned them. Everything else is what `glidein-demand serve` runs.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import jinja2
import pytest
import trustme
from glidein_demand import config
from glidein_demand.store.database import Database
from glidein_demand.store.tokens import Tokens

TEMPLATE = Path(__file__).parents[2] / "roles/demand_server/templates/nginx.conf.j2"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
COMMAND = [str(Path(sys.executable).with_name("glidein-demand"))]


def free_port():
    """Return a free port below those that the kernel gives to connections, so that it stays free until it is used."""
    while True:
        port = random.randrange(15_000, 32_000)  # noqa: S311
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def fetch(url, data=None, headers=None, context=None, timeout=120):
    """Return (status, body) of a response, including error responses."""
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=context) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def certificate(folder, name="localhost"):
    """Return {"ca", "certificate", "key"}: files of a new authority and its certificate for `name`."""
    authority = trustme.CA()
    issued = authority.issue_cert(name, "127.0.0.1")
    files = {part: folder / f"{part}.pem" for part in ("ca", "certificate", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    files["certificate"].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(files["key"])
    return files


def toml(value):
    """Return a TOML value: strings, numbers, booleans and lists of these are the same in JSON."""
    return json.dumps(value)


class Running:
    """A server that runs in `folder`, with tokens of `sites`. `stderr` has its output."""

    context = None

    def __init__(self, folder, sites=(), groups=None, **server):
        self.folder = Path(folder)
        self.port = free_port()
        self.settings = {"bind": "127.0.0.1", "port": self.port, **server}
        self.url = f"http://{'[::1]' if server.get('bind') == '::1' else 'localhost'}:{self.port}"
        self.database = f"sqlite:///{self.folder}/state.db"
        lines = [f"server.{name} = {toml(value)}" for name, value in self.settings.items()]
        lines += [
            f"state.database = {toml(self.database)}",
            'pool.collector = "127.0.0.1:1"',
            # The groups below are read once, and are not stale for three refreshes.
            f"pool.refresh_seconds = {300 if groups else 1}",
        ]
        self.config = self.folder / "config.toml"
        self.config.write_text("\n".join(lines) + "\n")
        (self.folder / "condor_config").write_text("LOCAL_DIR = /nonexistent\n")
        self.groups = groups
        (self.folder / "groups.json").write_text(json.dumps(groups))
        store = Database(self.database)
        tokens = Tokens(store)
        self.tokens = {site: tokens.create(site) for site in sites}
        store.close()
        self.process = None

    @property
    def stderr(self):
        return (self.folder / "stderr").read_text()

    def start(self):
        """Start the server and wait until it responds."""
        program = [*COMMAND, "serve", "--config", str(self.config)]
        if self.groups:
            program = [sys.executable, __file__, str(self.config), str(self.folder / "groups.json")]
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
        """Return (status, answer as JSON) of a call with the token of `site`."""
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1}).encode()
        headers = {"Authorization": f"Bearer {self.tokens[site]}"} if site else {}
        status, text = fetch(f"{self.url}/jsonrpc", body, headers, self.context, **options)
        return status, json.loads(text)

    def connect(self, timeout=60.0):
        """Return a TCP connection to the server."""
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def kill(self):
        """Kill the server at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def end(self, seconds=60):
        """Terminate the server; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_error):
        if self.process.poll() is None:
            self.kill()


class BehindProxy:
    """A running server behind nginx, as the role configures it, with other time limits of `limit_s` seconds.

    Between two requests a connection is kept for 2 seconds. Calls are limited only with `limit_req`, nginx's options.
    """

    def __init__(self, folder, max_connections=40, limit_s=600, limit_req="", **server):
        if NGINX is None or os.geteuid() != 0:
            pytest.skip("needs nginx, and root to start it: apt-get install nginx-light")
        self.folder = Path(folder)
        self.port = free_port()
        self.url = f"https://localhost:{self.port}"
        self.files = certificate(self.folder)
        self.context = ssl.create_default_context(cafile=str(self.files["ca"]))
        self.server = Running(folder, **server)
        text = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"), trim_blocks=True).render(
            ansible_managed="test",
            demand_server_port=self.port,
            __demand_server_own_port=self.server.port,
            __demand_server_max_connections=max_connections,
            __demand_server_proxy_service="test",
            __demand_server_proxy_user="www-data",
            __demand_server_proxy_pid=self.folder / "nginx.pid",
            __demand_server_proxy_listen=["127.0.0.1"],
            __demand_server_certificate=self.files["certificate"],
            __demand_server_key=self.files["key"],
        )
        self.nginx_config = self.folder / "nginx.conf"
        # Not in `folder`, which nginx's user cannot read.
        self.temporary = Path(tempfile.mkdtemp(prefix="nginx-", dir="/var/tmp"))  # noqa: S108
        self.temporary.chmod(0o755)
        text = text.replace("/var/tmp/", f"{self.temporary}/")  # noqa: S108
        assert text.count("keepalive_timeout 60s;") == text.count("rate=10r/s;") == 1
        text = text.replace("rate=10r/s;", "rate=1r/m;" if limit_req else "rate=10000r/s;")
        text = text.replace("burst=1200 nodelay;", f"{limit_req or 'burst=1200'};")
        self.nginx_config.write_text(
            text.replace("15s;", f"{limit_s}s;").replace("keepalive_timeout 60s;", "keepalive_timeout 2s;")
        )
        self.nginx = None

    @property
    def tokens(self):
        return self.server.tokens

    def reload(self):
        """Make nginx read its configuration and the certificate again."""
        self.nginx.send_signal(signal.SIGHUP)

    def get(self, path, **options):
        return fetch(f"{self.url}{path}", context=self.context, **options)

    def __enter__(self):
        self.server.start()
        with (self.folder / "nginx.log").open("a") as log:
            self.nginx = subprocess.Popen([NGINX, "-c", str(self.nginx_config)], stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.nginx.poll() is None, (self.folder / "nginx.log").read_text()
            with contextlib.suppress(OSError):
                return self.get("/healthz") and self
            time.sleep(0.05)
        raise AssertionError("nginx did not answer within 60 s")

    def __exit__(self, *_error):
        if self.nginx.poll() is None:
            self.nginx.terminate()
            self.nginx.wait(60)
        shutil.rmtree(self.temporary)
        self.server.__exit__()

    call = Running.call
    connect = Running.connect


def main(path, groups):
    from glidein_demand import service
    from glidein_demand.web.app import EXTENSION, create_app

    settings, found = config.load(Path(path)), json.loads(Path(groups).read_text())
    service.log_to_stderr()
    app = create_app(settings)
    server = app.extensions[EXTENSION]
    result = {"groups": found, "unreadable": [], "limit": None, "left": None, "attributes": []}
    server.pool_state.store_demand("cm", result, int(time.time()))
    service.serve(service.listen(app, settings))
    server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
