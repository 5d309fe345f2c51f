# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fuzz tests of every endpoint: no server error, and a description of the error in each response.

GLIDEIN_FUZZ_CASES is the number of cases in all (500): `make fuzz` runs 20,000.
"""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import NOW, TOKEN, Service, group, site_report

CASES = int(os.environ.get("GLIDEIN_FUZZ_CASES", "500"))
METHODS = ("get_state", "monitoring", "get_demand", "get_supply", "get_job", "lease", "report")
PATHS = (
    "/", "/jsonrpc", "/demand", "/supply", "/history", "/usage", "/healthz", "/metrics", "/static/style.css",
    "/static/",
)  # fmt: skip


def cases(share):
    """Return settings with this share of all cases, for one test."""
    return settings(
        max_examples=max(5, round(CASES * share)), deadline=None, suppress_health_check=list(HealthCheck),
        database=None, derandomize=CASES <= 500,
    )  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Return one server for all cases, so that each case meets the state that earlier ones left."""
    found = Service(url=f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/state.db")
    found.read(group(50, requirements='Owner == "alice"'), group(7, memory_mb=4096))
    found.revoked = found.token("Gone")
    found.server.tokens.revoke("Gone")
    found.reader = found.token("grafana", "reader")
    found.other = found.token("Cedar")
    yield found
    found.close()


# --- inputs ---

LEAF = (
    st.none() | st.booleans() | st.integers() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=20)
    | st.sampled_from(["PSC", "\ud800", "\x00", "<script>", "' OR 1=1 --", "../../etc/passwd", "%s", 2**53, 1e308, ""])
)  # fmt: skip
ANYTHING = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAME = st.sampled_from(["PSC", "RM", "node", "q"]) | ANYTHING
GROUP_ID = st.sampled_from([group()["id"], group(memory_mb=4096)["id"], "nothing"]) | st.text(max_size=70)
RUNNING = st.lists(st.fixed_dictionaries({}, optional={"id": NAME, "wait_s": ANYTHING}) | ANYTHING, max_size=3)
ENTRY = st.fixed_dictionaries(
    {}, optional={"entry": NAME, "shape": NAME, "queued": ANYTHING, "running": ANYTHING, "launched": ANYTHING,
                  "running_glideins": RUNNING | ANYTHING, "sick_reasons": ANYTHING, "error": ANYTHING,
                  "reason": ANYTHING},
)  # fmt: skip
CLAIMS = st.dictionaries(
    st.text(max_size=8) | st.just("RM"), st.dictionaries(GROUP_ID, ANYTHING, max_size=3), max_size=3
)
PARAMS = ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        "uuid": ANYTHING, "metrics": ANYTHING, "timestamp": ANYTHING, "glideins_idle": ANYTHING, "site": NAME,
        "as_of": st.just(NOW) | ANYTHING, "orphans": ANYTHING, "error": ANYTHING, "ttl_s": st.just(60) | ANYTHING,
        "entries": st.lists(ENTRY, max_size=3) | CLAIMS | ANYTHING, "sites": st.lists(NAME, max_size=3) | ANYTHING,
    },
) | st.just(site_report())  # fmt: skip
REQUEST = st.fixed_dictionaries(
    {}, optional={"jsonrpc": st.just("2.0") | ANYTHING, "method": st.sampled_from(METHODS) | ANYTHING, "params": PARAMS,
                  "id": st.just(1) | ANYTHING},
) | st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(METHODS), "params": PARAMS, "id": st.just(1) | LEAF}
)  # fmt: skip


def deep(depth, opening, around):
    """Return JSON text that is `depth` levels deep, as it is or as the parameter of a call."""
    closing = {"[": "]", '{"a":': "}"}[opening]
    text = opening * depth + "1" + closing * depth
    return (
        f'{{"jsonrpc":"2.0","method":"report","params":{{"site":"PSC","entries":{text}}},"id":1}}' if around else text
    )


DEEP = st.builds(deep, st.integers(1, 9000), st.sampled_from(["[", '{"a":']), st.booleans())
WELL_FORMED = st.builds(json.dumps, REQUEST | st.lists(REQUEST, max_size=6) | ANYTHING).map(str.encode)


@st.composite
def damaged(draw):
    """Generate a call with some of its bytes replaced, removed or doubled."""
    body = bytearray(
        json.dumps({"jsonrpc": "2.0", "method": draw(st.sampled_from(METHODS)), "params": site_report(), "id": 1}),
        "ascii",
    )
    for _again in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body) - 1))
        body[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        if not body:
            break
    return bytes(body)


BODY = (
    WELL_FORMED
    | damaged()
    | st.binary(max_size=300)
    | DEEP.map(str.encode)
    | st.integers(45_000, 60_000).map(lambda n: b" " * n)
)
TEXT_TYPES = ["application/json", "application/json; charset=utf-16", "application/vnd.api+json"]
CONTENT_TYPE = st.sampled_from(
    [*TEXT_TYPES * 3, "text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data", "json", "\xff"]
)
HEADER_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60).map(
    str.strip
)
HEADERS = st.dictionaries(
    st.sampled_from(["Accept-Encoding", "If-None-Match", "Range", "Accept", "X-Forwarded-For", "Cookie", "Expect",
                     "If-Modified-Since", "Host", "Content-Encoding", "Origin", "X-HTTP-Method-Override", "Upgrade"]),
    HEADER_TEXT | st.sampled_from(["gzip", "*", 'W/"x"', "bytes=0-", "gzip;q=abc", "\xff", "a" * 5000]), max_size=3,
)  # fmt: skip
NO_QUERY = st.text(st.characters(codec="utf-8", exclude_characters="?"), max_size=40)
PATH = st.sampled_from(PATHS) | st.builds("".join, st.tuples(st.sampled_from(PATHS), NO_QUERY))
WHO = st.sampled_from(["nobody", "site", "reader", "other", "revoked", "cut", "flipped", "wrong", "garbage"])


def authorization(service, who, garbage):
    """Return an Authorization header: valid, another caller's, revoked, forged, or invalid."""
    secrets = {
        "site": TOKEN, "reader": service.reader, "other": service.other, "revoked": service.revoked, "cut": TOKEN[:-1],
        "flipped": TOKEN.swapcase(), "wrong": "x" * 43,
    }  # fmt: skip
    if who == "nobody":
        return {}
    return {"Authorization": f"Bearer {secrets[who]}" if who in secrets else garbage}


# --- expected responses ---


def content(response):
    return response.data.decode()


def is_jsonrpc_error(answer):
    error = answer["error"]
    assert isinstance(error["code"], int) and -32800 < error["code"] < -31999
    assert error["message"]
    assert error["code"] == -32601 or error["data"], answer
    return True


def check_response(response):
    """Fail unless this is a valid response of /jsonrpc."""
    assert response.status_code in (200, 204, 304, 400, 405, 413, 415), (response.status_code, content(response))
    if response.status_code in (204, 304):
        assert response.data == b""
        return
    answer = json.loads(content(response))
    for one in answer if isinstance(answer, list) else [answer]:
        assert one["jsonrpc"] == "2.0"
        assert ("result" in one) != ("error" in one)
        assert "error" not in one or is_jsonrpc_error(one)
    if not isinstance(answer, list):
        assert ("error" in answer) == (response.status_code != 200)


@cases(0.6)
@given(BODY, CONTENT_TYPE, HEADERS, WHO, HEADER_TEXT)
def test_any_request_to_jsonrpc_gets_a_description_of_its_error(service, body, content_type, headers, who, garbage):
    headers = {**headers, **authorization(service, who, garbage)}
    response = service.client.post("/jsonrpc", data=body, content_type=content_type, headers=headers)
    check_response(response)
    if who not in ("site", "reader", "other"):
        assert "alice" not in content(response)


@cases(0.2)
@given(st.sampled_from(METHODS), PARAMS, WHO, HEADER_TEXT)
def test_a_call_with_any_parameters_is_executed_or_refused(service, method, params, who, garbage):
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1})
    headers = authorization(service, who, garbage)
    response = service.client.post("/jsonrpc", data=body, content_type="application/json", headers=headers)
    check_response(response)
    if method in ("lease", "report") and who != "site":
        assert response.status_code == 400
        assert set(service.server.reports.reports()) <= {"PSC", "Cedar"}


@cases(0.2)
@given(
    st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE", "TRACE", "get", "BREW"]),
    PATH,
    st.text(max_size=40) | st.sampled_from(["range=year", "range=", "range=%ff", "range=day&range=week"]),
    HEADERS, WHO, HEADER_TEXT, st.binary(max_size=50),
)  # fmt: skip
def test_any_address_is_answered_without_an_error_of_the_server(
    service, method, path, query, headers, who, garbage, body
):
    headers = {**headers, **authorization(service, who, garbage)}
    # As a server passes it on. The client would take "//HOST/" for the name of a host.
    environ = {"PATH_INFO": path.encode().decode("latin-1")}
    response = service.client.open(
        query_string=query, method=method, headers=headers, data=body, environ_overrides=environ
    )
    assert response.status_code < 500, (response.status_code, content(response))
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Traceback" not in content(response)
    if who not in ("site", "reader", "other"):
        assert "alice" not in content(response)


def test_afterwards_the_server_responds_as_before(service):
    assert service.result("get_demand", token=TOKEN)["groups"]
    assert "50" in service.page(TOKEN)
    assert service.get("/healthz").json["status"] == "ok"
    assert service.result("lease", {"site": "PSC", "entries": {"RM": {group()["id"]: 5}}}, TOKEN)["granted"]
