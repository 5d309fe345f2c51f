# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyGlidein's own server on the demand server's host, with the groups of the demand server as its state.

BENCH_PYGLIDEIN_SOURCE names its source archive (.tar.gz), by path or URL.
"""

import base64
import http.client
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

import requests_of_demand
from bench_lab import BenchError

RELEASED = "https://github.com/WIPACrepo/pyglidein/archive/refs/tags/v1.1.23.tar.gz"
PORT = 11002


def highest_rate(lab, token, **load):
    """Return the highest rate of get_state, in requests per second; see remote/load.py for `load`."""
    order = {"archive": base64.b64encode(_installed(_source())).decode(), "token": token, "port": PORT}
    try:
        lab.remote("pyglidein", {"action": "start", **order})
        request = requests_of_demand.request("get_state", port=PORT)
        return lab.remote("load", {"address": ["127.0.0.1", PORT], "request": request, **load})["rps"]
    finally:
        lab.remote("pyglidein", {"action": "stop"})


def _installed(source):
    """Return a .tar.gz of PyGlidein's package and of its libraries, which run on any Python from 3.12."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "tornado", "setuptools"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")
        with tarfile.open(fileobj=io.BytesIO(source)) as archive:
            archive.extractall(f"{folder}/sources", filter="data")
        (package,) = Path(folder).glob("sources/*/pyglidein")
        package.rename(f"{folder}/pyglidein")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.add(folder, ".")
        return packed.getvalue()


def _source():
    """Return the bytes of PyGlidein's source archive; raise BenchError if it cannot be read."""
    source = os.environ.get("BENCH_PYGLIDEIN_SOURCE") or RELEASED
    try:
        if "://" not in source:
            return Path(source).read_bytes()
        with urllib.request.urlopen(source, timeout=60) as reply:  # noqa: S310
            return reply.read()
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(
            f"PyGlidein's source archive {source} cannot be read: {error}; set BENCH_PYGLIDEIN_SOURCE to the path or "
            "the address of a .tar.gz"
        ) from error
