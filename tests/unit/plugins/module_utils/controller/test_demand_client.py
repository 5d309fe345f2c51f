# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import socket
import threading

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError, ServerError
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Server
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import DemandClient

TOKEN = "s3cret-token"  # noqa: S105
NOT_FOUND = {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found", "data": "x"}, "id": 1}


def failure(server, method="get_demand"):
    with pytest.raises(ServerError) as raised:
        DemandClient(server.url, TOKEN).call(method)
    text = str(raised.value)
    assert TOKEN not in text
    assert server.url + "/jsonrpc, " + method in text
    return text


@pytest.mark.parametrize("result", [{"groups": []}, ""])
def test_the_result_is_returned(server, result):
    server.result(result)
    assert DemandClient(server.url + "/").call("get_demand") == result
    path, unused, request = server.requests[0]
    assert path == "/jsonrpc"
    assert request == {"jsonrpc": "2.0", "method": "get_demand", "params": {}, "id": 1}


def test_the_token_is_sent_regardless_of_netrc(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.result({})
    DemandClient(server.url, TOKEN).call("report")
    DemandClient(server.url).call("report")
    assert server.requests[0][1]["Authorization"] == "Bearer " + TOKEN
    assert "Authorization" not in server.requests[1][1]


@pytest.mark.parametrize(
    "body, status, words",
    [
        ("<html>Bad Gateway</html>", 502, "HTTP 502, not JSON: '<html>Bad Gateway</html>'"),
        ("", 200, "HTTP 200, not JSON: 'nothing'"),
        ([], 200, "HTTP 200, no JSON-RPC result: '[]'"),
        ({"id": 1}, 200, "no JSON-RPC result"),
        ({"result": 1}, 500, "HTTP 500, no JSON-RPC result"),
        (NOT_FOUND, 400, "HTTP 400, JSON-RPC error -32601: Method not found (x)"),
    ],
)
def test_an_error_of_the_server_and_an_invalid_reply_are_quoted(server, body, status, words):
    server.say(body, status)
    assert words in failure(server)


def test_a_pyglidein_server_is_reported_with_the_remedy(server):
    server.say(NOT_FOUND, 400)
    assert "looks like a PyGlidein server" in failure(server)
    assert "glidein_demand_url" in failure(server)
    # An earlier demand server has get_demand, too.
    assert "PyGlidein" not in failure(server, "report")


def test_redirects_are_not_followed_with_the_token(server):
    server.say("", 302, Location=server.url + "/elsewhere")
    assert "a redirect to " + server.url + "/elsewhere, which is not followed" in failure(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "proxy, reason", [("", "Connection refused"), ("http://127.0.0.1:9", "the HTTP proxy: Connection refused")]
)
def test_an_unreachable_server_is_reported_with_only_the_reason(monkeypatch, proxy, reason):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(
        ServerError, match=f"^Demand server http://127.0.0.1:9/jsonrpc, get_demand: no answer: {reason}"
    ):
        DemandClient("http://127.0.0.1:9").call("get_demand")


def close_first_connection(listener):
    connection, _address = listener.accept()
    connection.close()


def test_a_server_that_ends_during_a_call_is_reported_in_one_sentence():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = "http://127.0.0.1:{0}".format(listener.getsockname()[1])
        thread = threading.Thread(target=close_first_connection, args=(listener,))
        thread.start()
        with pytest.raises(ServerError) as raised:
            DemandClient(url).call("report")
        thread.join()
    assert str(raised.value) in [
        f"Demand server {url}/jsonrpc, report: no answer: {reason}"
        for reason in ("Remote end closed connection without response", "Connection reset by peer", "Broken pipe")
    ]


@pytest.mark.parametrize(
    "url", ["", "cm:11001", "ftp://cm", "http://", "http://cm:port", "http://cm/?a=b", "file:///etc/passwd"]
)
def test_an_invalid_address_is_an_error_with_the_expected_form(url):
    with pytest.raises(InputError, match="glidein_demand_url: .* is invalid; expected http://"):
        DemandClient(url)


def test_a_password_in_the_address_is_refused_and_not_shown():
    with pytest.raises(InputError) as raised:
        DemandClient("http://me:hidden@cm:1")
    assert "hidden" not in str(raised.value)


def test_certificates_are_checked_by_default():
    assert Server({"glidein_demand_url": "https://cm"}).client(TOKEN).verify is True
    given = {"glidein_demand_url": "https://cm", "glidein_demand_ca_path": "/ca.pem"}
    assert Server(given).client(TOKEN).verify == "/ca.pem"
