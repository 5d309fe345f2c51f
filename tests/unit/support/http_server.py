# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HTTP server in a thread that answers every POST as the test sets it and records the requests."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Answers:
    """The answer: status, headers and body (text or JSON value). `requests`: [(path, headers, JSON)]."""

    def __init__(self, url):
        self.url = url
        self.requests = []
        self.status, self.headers, self.body = 200, {}, {}

    def say(self, body, status=200, **headers):
        self.body, self.status, self.headers = body, status, headers

    def result(self, value):
        self.say({"jsonrpc": "2.0", "result": value, "id": 1})


@contextlib.contextmanager
def answering():
    """Serve on a free port of the loopback interface while the context lasts; yield Answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            answers.requests.append((self.path, dict(self.headers), json.loads(text.decode("utf-8"))))
            body = answers.body(answers.requests[-1][2]) if callable(answers.body) else answers.body
            body = body if isinstance(body, str) else json.dumps(body)
            self.send_response(answers.status)
            for name, value in answers.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode("utf-8"))))
            self.end_headers()
            self.wfile.write(body.encode("utf-8"))

        def log_message(self, *unused):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    answers = Answers("http://127.0.0.1:{0}".format(server.server_port))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
