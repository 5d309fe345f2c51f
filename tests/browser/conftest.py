# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures with servers that serve a scene, and with a browser that checks what a page does."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from glidein_demand.store.database import Database
from glidein_demand.store.tokens import Tokens
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
SCREENSHOTS = ROOT / ".build" / "screenshots"
SCENES = Path(__file__).with_name("scenes.py")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Only the page: no GPU, and no background requests of the browser itself.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESKTOP = {"width": 1360, "height": 900}
HANG_MS = 120_000
PHONE = {"width": 400, "height": 800}


class Server:
    """A server process with a database of its own, on 127.0.0.1. `token`: the token of the site PSC-Bridges."""

    def __init__(self, folder, arguments, toml=""):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.database = f"sqlite:///{folder}/state.db"
        config = folder / "config.toml"
        config.write_text(
            f'server.bind = "127.0.0.1"\nserver.port = {port}\n'
            f'state.database = "{self.database}"\npool.collector = "127.0.0.1:1"\n{toml}'
        )
        (folder / "condor_config").write_text("LOCAL_DIR = /nonexistent\n")
        store = Database(self.database)
        self.token = Tokens(store).create("PSC-Bridges")
        store.close()
        command = [str(config) if argument == "CONFIG" else argument for argument in arguments]
        env = {**os.environ, "CONDOR_CONFIG": str(folder / "condor_config")}
        with (folder / "stderr").open("w") as stderr:
            self.process = subprocess.Popen([sys.executable, *command], stderr=stderr, env=env)

    def wait(self, seconds=120):
        """Wait until the server responds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "stderr").read_text()
            with contextlib.suppress(OSError):
                try:
                    urllib.request.urlopen(f"{self.url}/healthz", timeout=120).close()
                except urllib.error.HTTPError as error:
                    error.close()  # 503: the server responds but has not read the queue
                return self
            time.sleep(0.05)
        raise AssertionError(f"no answer within {seconds} s: {(self.folder / 'stderr').read_text()}")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)


def pytest_configure(config):
    config.addinivalue_line("markers", "looks: one of the few tests that show that the page works")


@pytest.fixture(scope="session")
def scene(tmp_path_factory):
    """Return scene(name): the server with that scene, started once and never changed."""
    running = {}

    def get(name):
        if name not in running:
            folder = tmp_path_factory.mktemp(name)
            running[name] = Server(folder, [str(SCENES), "CONFIG", name])
        return running[name].wait()

    yield get
    for server in running.values():
        server.end()


@pytest.fixture
def own_server(tmp_path):
    """Return own_server(arguments, toml): a server that a test may change and end."""
    started = []

    def start(arguments, toml=""):
        started.append(Server(tmp_path, arguments, toml))
        return started[-1].wait()

    yield start
    for server in started:
        server.end()


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, f"none of {', '.join(CHROMIUM)} is in PATH"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


class Watched:
    """Contexts of the browser, with the forbidden actions of their pages."""

    def __init__(self, browser):
        self._browser = browser
        self._contexts = []
        self.wrong = []
        self.requests = []

    def open(self, url, **options):
        """Return a page at `url` after its charts are drawn; options are those of a browser's context."""
        context = self._browser.new_context(**{"viewport": DESKTOP, **options})
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(HANG_MS)
        page.set_default_navigation_timeout(HANG_MS)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._request(request, url))
        page.goto(url, wait_until="networkidle")
        return page

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _request(self, request, url):
        self.requests.append(request.url)
        own = "/".join(url.split("/")[:3])
        if not request.url.startswith((own + "/", "data:", "blob:")):
            self.wrong.append(f"request to {request.url}")

    def close(self):
        for context in self._contexts:
            context.close()


@pytest.fixture
def watched(browser):
    """Return the opener of pages; fail a test whose page logs an error, contacts another host, or opens a dialog."""
    found = Watched(browser)
    yield found
    found.close()
    assert found.wrong == []


@pytest.fixture
def screenshot():
    """Return screenshot(page, name), which saves a picture of the whole page in .build/screenshots."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def take(page, name):
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return take
