# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTPS of the running server."""

import contextlib
import http.client
import shutil
import socket
import ssl
import time
import warnings

import pytest
from glidein_demand.config import ConfigError
from glidein_demand.web.tls import Certificate

from running import Running, certificate


@pytest.fixture
def server(tmp_path):
    with Running(tmp_path, sites=["PSC"], tls=certificate(tmp_path)) as running:
        yield running


def handshake(server, **versions):
    context = ssl.create_default_context(cafile=str(server.folder / "ca.pem"))
    for name, version in versions.items():
        setattr(context, name, version)
    with (
        socket.create_connection(("localhost", server.port), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        return connection.version(), connection.getpeercert(binary_form=True)


def test_it_answers_with_its_certificate_and_whole_replies(server):
    assert server.call("get_demand", site="PSC")[0] == 200
    assert server.get("/static/style.css")[0] == 200


def test_it_speaks_tls_1_2_and_1_3_and_nothing_older(server):
    assert handshake(server)[0] == "TLSv1.3"
    assert handshake(server, maximum_version=ssl.TLSVersion.TLSv1_2)[0] == "TLSv1.2"
    with warnings.catch_warnings(), pytest.raises((ssl.SSLError, OSError)):
        warnings.simplefilter("ignore")  # the old versions are deprecated: so they are
        handshake(server, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)


def replaced(certificate_files, source):
    for part in ("certificate", "key"):
        shutil.copyfile(source[part], certificate_files[part])


def test_a_renewed_certificate_is_taken_over_and_one_that_does_not_fit_is_not(tmp_path):
    folders = [tmp_path / name for name in ("used", "renewed", "other")]
    for folder in folders:
        folder.mkdir()
    used, renewed, other = map(certificate, folders)
    found = Certificate(str(used["certificate"]), str(used["key"]))
    assert not found.renew()
    shutil.copyfile(other["certificate"], used["certificate"])
    assert not found.renew()
    replaced(used, renewed)
    assert found.renew()
    assert not found.renew()
    used["key"].unlink()
    assert not found.renew()


def test_a_running_server_uses_a_renewed_certificate_without_a_restart(tmp_path):
    (tmp_path / "new").mkdir()
    tls, new = certificate(tmp_path), certificate(tmp_path / "new")
    with Running(tmp_path, tls=tls, patience={"certificate": 0.2}) as server:
        first = handshake(server)[1]
        kept = http.client.HTTPSConnection("localhost", server.port, context=server.context, timeout=10)

        def still_answered():  # on the connection that was there before
            kept.request("GET", "/metrics")
            assert kept.getresponse().read()

        still_answered()
        replaced(tls, new)
        (tmp_path / "ca.pem").write_bytes(new["ca"].read_bytes())
        second, deadline = None, time.monotonic() + 10
        while second is None and time.monotonic() < deadline:
            still_answered()
            with contextlib.suppress(ssl.SSLCertVerificationError):
                second = handshake(server)[1]
        assert second not in (None, first)
        still_answered()
        kept.close()


def test_a_key_with_a_passphrase_is_refused_without_asking_for_it(tmp_path):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    tls = certificate(tmp_path)
    key = ec.generate_private_key(ec.SECP256R1())
    tls["key"].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    with pytest.raises(ConfigError, match="without passphrase"):
        Certificate(str(tls["certificate"]), str(tls["key"]))
