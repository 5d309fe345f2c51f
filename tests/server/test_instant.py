# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that need no waiting are answered in the event loop; all others, and those that seemed so, by a thread."""

import asyncio
import contextlib
import json
import threading

import pytest
from glidein_demand import waiting
from glidein_demand.store.ttl_cache import CachedValue
from glidein_demand.web import instant, replies, wsgi
from glidein_demand.web.instant import is_instant

from conftest import TOKEN, group, site_report

SOON_S = 10  # far beyond what an answer takes, far below what a blocked thread would


def call(method, params=None, **changes):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, "id": 1, **changes}).encode()


def judged(body=b"", path="/jsonrpc", method="POST"):
    return is_instant({"PATH_INFO": path, "REQUEST_METHOD": method}, body)


HOSTILE = [
    b"", b"{", b"\xff\xfe", b"[" * 4000, b'{"a":' * 800, b"1" * 4000, b'"' + b"x" * 4000 + b'"', b"null", b"0", b"[]",
    b"{}", b'{"method": ["get_demand"]}', b'{"method": {"get_demand": 1}}', b'{"method": 1e999}', b'{"method": NaN}',
    b'{"method": "get_demand"}', b'{"jsonrpc": "2.0", "method": "get_demand", "params": 7, "id": 1}',
    b'{"jsonrpc": "2.0", "method": "get_demand", "params": {"sites": [["x"]]}, "id": 1}',
    b'{"jsonrpc": "2.0", "method": "get_demand", "params": {"sites": ["' + b"x" * 3000 + b'"]}, "id": 1}',
    b'{"jsonrpc": "2.0", "method": "get_demand", "method": "lease", "id": 1}',
    b'{"jsonrpc": "2.0", "method": "lease", "method": "get_demand", "id": 1}',
    b'{"jsonrpc": "2.0", "method": "get_demand", "id": {"a": 1}}', b'{"jsonrpc": "2.0", "method": "get_demand"}',
    b'{"jsonrpc": "2.0", "method": "get_demand", "id": ' + b"9" * 2000 + b"}",
    b'{"jsonrpc": "2.0", "method": "get_supply", "params": {"no": 1}, "id": "\\ud800"}',
    b"[" + call("get_demand") + b"]", b"\xef\xbb\xbf" + call("get_demand"),
]  # fmt: skip


class Asked:
    """The bridge over the application of a Service, with `threads`; what it is asked and what it answers."""

    def __init__(self, service, threads=2, judge=is_instant):
        self.service = service
        self.occupied = threading.Semaphore(0)
        self.free = threading.Event()
        self.in_thread = []  # what a thread was given
        self.threads = threads
        self.bridge = wsgi.Bridge(self.application, threads, 20_000, 30, judge)

    def application(self, environ, start_response):
        if threading.current_thread() is not threading.main_thread():
            self.in_thread.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] == "/wait":
            self.occupied.release()
            self.free.wait(30)
        return self.service.app(environ, start_response)

    async def ask(self, body=b"", path="/jsonrpc", token=None, **headers):
        """(status, headers, body) of the answer; a POST if there is a body."""
        raw = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {}), **headers}
        scope = {
            "type": "http", "method": "POST" if body else "GET", "path": path, "query_string": b"",
            "http_version": "1.1", "headers": [(name.encode(), value.encode()) for name, value in raw.items()],
            "client": ("192.0.2.1", 5),
        }  # fmt: skip
        said = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            said.append(message)

        await asyncio.wait_for(self.bridge(scope, receive, send), SOON_S)
        start, answer = said
        return start["status"], dict(start["headers"]), answer["body"]

    @contextlib.asynccontextmanager
    async def all_threads_busy(self):
        waiting_ones = [asyncio.ensure_future(self.ask(path="/wait")) for _number in range(self.threads)]
        loop = asyncio.get_running_loop()
        for _one in waiting_ones:
            await loop.run_in_executor(None, self.occupied.acquire, True, SOON_S)
        try:
            yield
        finally:
            self.free.set()
            await asyncio.gather(*waiting_ones)


@pytest.fixture
def asked(service):
    made = Asked(service)
    yield made
    made.free.set()
    made.bridge.close()


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("method", sorted(instant.METHODS))
def test_reading_what_is_kept_is_instant(method):
    assert judged(call(method))


@pytest.mark.parametrize("method", ["lease", "report", "monitoring", "nothing", ""])
def test_what_writes_or_must_be_made_each_time_is_not(method):
    assert not judged(call(method))


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [
        ("/healthz", "GET", True), ("/demand", "GET", True), ("/supply", "GET", True), ("/", "GET", False),
        ("/metrics", "GET", False), ("/history", "GET", False), ("/static/style.css", "GET", False),
        ("/healthz", "POST", False), ("/jsonrpc", "GET", False), ("/jsonrpc", "PUT", False), ("/x", "POST", False),
    ],
)  # fmt: skip
def test_of_other_addresses_those_that_only_read_memory_are_instant(path, method, expected):
    assert judged(call("get_demand"), path, method) is expected


def test_a_batch_and_a_long_body_are_not_instant():
    assert not judged(b"[" + call("get_demand") + b"]")
    padding = b" " * (instant.MAX_BODY_BYTES - len(call("get_demand")))
    assert judged(call("get_demand") + padding)
    assert not judged(call("get_demand") + padding + b" ")


def test_what_is_kept_is_answered_while_all_threads_are_busy(service, asked):
    service.read(group(5))
    expected = service.call("get_demand", token=TOKEN)

    async def scene():
        async with asked.all_threads_busy():
            demand = await asked.ask(call("get_demand"), token=TOKEN)
            has_it = {"if-none-match": expected.headers["ETag"]}
            known = await asked.ask(call("get_demand", id=7), token=TOKEN, **has_it)
            return demand, known, await asked.ask(path="/healthz"), await asked.ask(path="/demand", token=TOKEN)

    demand, known, health, plain = run(scene())
    assert (demand[0], demand[2]) == (200, expected.data)
    assert {name.decode(): value.decode() for name, value in demand[1].items()} == {
        name.lower(): value for name, value in expected.headers.items()
    }
    assert (known[0], known[2]) == (304, b"")
    assert (health[0], json.loads(health[2])["status"]) == (200, "ok")
    assert json.loads(plain[2]) == expected.json["result"]
    assert asked.in_thread == ["/wait", "/wait"]


@pytest.mark.parametrize("token", [None, "wrong-token-of-somebody"])
def test_who_may_not_read_is_refused_at_once_too(new_service, token):
    asked = Asked(new_service(server={"reading": "token"}))

    async def scene():
        await asked.ask(call("get_demand"), token=TOKEN)
        async with asked.all_threads_busy():
            return await asked.ask(call("get_demand"), token=token), await asked.ask(path="/demand", token=token)

    over_rpc, plain = run(scene())
    assert (over_rpc[0], json.loads(over_rpc[2])["error"]["code"], plain[0]) == (400, -32001, 401)
    asked.bridge.close()


def test_what_has_to_be_made_first_is_left_to_a_thread(service, asked):
    service.read(group(5))

    async def scene():
        await asked.ask(call("get_demand"))
        async with asked.all_threads_busy():
            later = asyncio.ensure_future(asked.ask(call("get_supply")))
            await asyncio.sleep(0.2)
            assert not later.done()
            assert (await asked.ask(call("get_demand")))[0] == 200
        return await later

    status, _headers, body = run(scene())
    assert (status, json.loads(body)["result"]) == (200, service.result("get_supply"))
    assert asked.in_thread == ["/jsonrpc", "/wait", "/wait", "/jsonrpc"]


@pytest.mark.parametrize(
    "change",
    [
        lambda service: service.read(group(6)),
        lambda service: service.parts.pause.set("test", "test"),
        lambda service: service.result("lease", {"site": "PSC", "entries": {"RM": {group()["id"]: 2}}}, TOKEN),
        lambda service: service.parts.tokens.revoke("Cedar"),
    ],
)
def test_a_change_is_seen_in_the_next_answer(service, asked, change):
    service.read(group(5))
    token = service.token("Cedar")
    before = run(asked.ask(call("get_demand"), token=token))
    assert run(asked.ask(call("get_demand"), token=token)) == before
    change(service)
    after = run(asked.ask(call("get_demand"), token=token))
    assert after != before
    expected = service.call("get_demand", token=token)
    assert (after[0], after[2]) == (expected.status_code, expected.data)


def test_one_that_a_thread_had_to_answer_counts_once(new_service):
    service = new_service(server={"max_requests_per_minute": 2})
    asked = Asked(service)
    found = [run(asked.ask(call("get_supply"))) for _again in range(3)]
    assert [status for status, _headers, _body in found] == [200, 200, 429]
    assert asked.in_thread == ["/jsonrpc"]  # the first, which had to make the reply
    counted = b'glidein_demand_rpc_calls_total{method="get_supply",outcome="ok"} 2.0'
    assert counted in service.get("/metrics", TOKEN).data
    asked.bridge.close()


def test_what_is_taken_for_instant_and_writes_is_carried_out_once(service):
    asked = Asked(service, judge=lambda _environ, _body: True)
    status, _headers, body = run(asked.ask(call("report", site_report()), token=TOKEN))
    assert (status, json.loads(body)["result"]) == (200, {"accepted": True})
    assert service.parts.reports.launched() == {"PSC": 1}
    assert asked.in_thread == ["/jsonrpc"]
    asked.bridge.close()


@pytest.mark.parametrize("body", [b"x" * 30_000, *HOSTILE])
def test_what_somebody_makes_up_is_answered_as_it_is_without_this(service, body):
    service.read(group(5))
    plain, tried = Asked(service, judge=lambda _environ, _body: False), Asked(service)
    assert run(tried.ask(body, token=TOKEN)) == run(plain.ask(body, token=TOKEN))
    for one in (plain, tried):
        one.bridge.close()


def test_large_replies_are_not_compressed_in_the_event_loop(service, asked):
    service.read(*[group(1, memory_mb=number) for number in range(1, 300)])
    gzip = {"accept-encoding": "gzip"}
    run(asked.ask(call("get_demand"), **gzip))
    seen = len(asked.in_thread)
    for identity, more in ((1, 0), ("made up", 1)):
        status, headers, _body = run(asked.ask(call("get_demand", id=identity), **gzip))
        assert (status, headers[b"content-encoding"]) == (200, b"gzip")
        assert len(asked.in_thread) - seen == more


@pytest.mark.parametrize(
    "what",
    [
        lambda service: service.database.begin().__enter__(),
        lambda service: service.database.read().__enter__(),
        lambda service: CachedValue(lambda: 1).get(),
        lambda service: CachedValue(lambda: 1).reload(),
        lambda service: replies.Replies().get("a", 0, lambda: (1, 1)),
        lambda service: replies.Result(b"x" * 100_000).reply("1", False),
        lambda service: service.readings.snapshot().answers.demand(),
    ],
)
def test_nothing_waits_where_that_is_forbidden(service, what):
    service.parts.tokens.cache.reload()
    with pytest.raises(waiting.MustWait), waiting.forbidden():
        what(service)
    waiting.begins()  # and only there


def test_a_reading_that_has_become_stale_is_not_looked_through_where_waiting_is_forbidden(service):
    service.read(group(5))
    service.now += service.settings.max_age_seconds + 1
    with pytest.raises(waiting.MustWait), waiting.forbidden():
        service.readings.snapshot().answers.demand()  # noqa: B018 - it is made when it is looked at
    assert service.readings.snapshot().answers.demand()["groups"][0]["stale"] == 5
    with waiting.forbidden():
        assert service.readings.snapshot().answers.demand()["groups"][0]["stale"] == 5
