# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH_ASKPASS program, which ssh runs for each question: it sends the question over a socket and prints the answer.

ssh starts it through a script of two lines; no module imports it. It needs only Python's standard library.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    """Send the question and print the answer. The socket's path is in the environment; the answer only passes pipes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.connect(os.environ["GLIDEIN_OPS_ASKPASS"])
        question = {"prompt": " ".join(sys.argv[1:]), "hint": os.environ.get("SSH_ASKPASS_PROMPT", "")}
        channel.sendall(json.dumps(question).encode() + b"\n")
        reply = channel.makefile("r", encoding="utf-8").readline()
    # As bytes: in the locale C, an older Python refuses characters that are not ASCII.
    sys.stdout.buffer.write(json.loads(reply)["answer"].encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # ssh would treat a failure here as an empty answer, and send it to the site.
        os.kill(os.getppid(), signal.SIGTERM)
        raise SystemExit(1) from None
