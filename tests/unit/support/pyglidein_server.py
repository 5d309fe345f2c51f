# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server with the methods, replies and statuses of PyGlidein's server: get_state and monitoring only."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

STATE = [{"cpus": 2, "memory": 550, "disk": 100.0, "gpus": 0, "os": None, "count": 1000}]
RESULTS = {"get_state": STATE, "monitoring": ""}


@contextlib.contextmanager
def pyglidein_server():
    """Serve on a free port of the loopback interface; yield (URL, methods that were called)."""
    called = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])).decode("utf-8"))
            called.append(request["method"])
            reply = {"jsonrpc": "2.0", "id": request["id"]}
            if self.path == "/jsonrpc" and request["method"] in RESULTS:
                status, reply["result"] = 200, RESULTS[request["method"]]
            else:
                status, reply["error"] = 400, {"code": -32601, "message": "Method not found"}
            body = json.dumps(reply).encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *unused):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield "http://127.0.0.1:{0}".format(server.server_port), called
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
