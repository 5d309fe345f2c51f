# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that ssh calls for each question (SSH_ASKPASS): it hands it on over a socket, and prints the answer.

Not imported by anything; started by ssh through a two-line script. It needs nothing but Python's standard library.
"""

import json
import os
import signal
import socket
import sys


def main():
    """Ask, and print what came back. The socket's path is in the environment, and the answer nowhere but in pipes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.connect(os.environ["GLIDEIN_OPS_ASKPASS"])
        question = {"prompt": " ".join(sys.argv[1:]), "hint": os.environ.get("SSH_ASKPASS_PROMPT", "")}
        channel.sendall(json.dumps(question).encode() + b"\n")
        reply = channel.makefile("r", encoding="utf-8").readline()
    # As bytes: in the locale C, an older Python would refuse what is not ASCII.
    sys.stdout.buffer.write(json.loads(reply)["answer"].encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        # ssh would take a failure here for an empty answer, and send that to the site as a wrong one.
        os.kill(os.getppid(), signal.SIGTERM)
        raise SystemExit(1) from None
