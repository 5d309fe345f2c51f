# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of HTTPS through nginx, as the role configures it."""

import contextlib
import gzip
import http.client
import shutil
import socket
import ssl
import time
import warnings

import pytest

from conftest import group
from running import BehindProxy, certificate

pytestmark = pytest.mark.services


@pytest.fixture
def server(tmp_path):
    with BehindProxy(tmp_path, sites=["PSC"], groups=[group(5)]) as running:
        yield running


def handshake(server, **versions):
    context = ssl.create_default_context(cafile=str(server.folder / "ca.pem"))
    for name, version in versions.items():
        setattr(context, name, version)
    with (
        socket.create_connection(("localhost", server.port), 60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        return connection.version(), connection.getpeercert(binary_form=True)


def test_the_proxy_presents_its_certificate_and_sends_complete_replies(server):
    assert server.call("get_demand", site="PSC")[0] == 200
    assert server.get("/static/style.css")[0] == 200
    # nginx's defaults for these directories need not exist in the unit.
    assert {path.name for path in server.temporary.iterdir()} == {"body", "fastcgi", "proxy", "scgi", "uwsgi"}


def test_the_proxy_compresses_replies_for_clients_that_accept_it(server):
    connection = http.client.HTTPSConnection("localhost", server.port, context=server.context, timeout=60)
    for path in ("/demand", "/static/style.css", "/static/page.js"):
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        assert answer.getheader("Content-Encoding") == "gzip"
        assert gzip.decompress(answer.read()).decode() == server.get(path)[1]
    connection.close()


def test_the_proxy_accepts_tls_1_2_and_1_3_and_nothing_older(server):
    assert handshake(server)[0] == "TLSv1.3"
    assert handshake(server, maximum_version=ssl.TLSVersion.TLSv1_2)[0] == "TLSv1.2"
    with warnings.catch_warnings(), pytest.raises((ssl.SSLError, OSError)):
        warnings.simplefilter("ignore")  # Python warns that these old versions are deprecated
        handshake(server, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)


def test_an_address_that_calls_too_often_gets_429_whatever_address_it_names(tmp_path):
    with BehindProxy(tmp_path, limit_req="burst=9 nodelay") as server:
        found = [server.get("/metrics", headers={"X-Forwarded-For": f"192.0.2.{n}"})[0] for n in range(12)]
    assert set(found[:4]) == {200}
    assert found[-1] == 429


def test_a_reload_uses_a_renewed_certificate_and_ends_no_connection(server):
    new_folder = server.folder / "new"
    new_folder.mkdir()
    new = certificate(new_folder)
    first = handshake(server)[1]
    kept = http.client.HTTPSConnection("localhost", server.port, context=server.context, timeout=60)
    kept.request("GET", "/metrics")
    answer = kept.getresponse()
    for part in ("certificate", "key"):
        shutil.copyfile(new[part], server.files[part])
    shutil.copyfile(new["ca"], server.folder / "ca.pem")
    server.reload()
    second, deadline = None, time.monotonic() + 60
    while second is None and time.monotonic() < deadline:
        with contextlib.suppress(ssl.SSLCertVerificationError):
            second = handshake(server)[1]
    assert second not in (None, first)
    assert b"glidein_demand_info" in answer.read()
    kept.close()
