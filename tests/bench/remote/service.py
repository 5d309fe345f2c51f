# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the demand server's host as root: runs the deployed service, in its own unit, with a measurement's settings.

stdin: {"action": "start", "settings": {section: {name: value}}, "endless": bool}, {"action": "pause"} or {"action":
"stop"}.

`settings` change the deployed ones. With `endless`, refreshes follow each other without a pause, which no setting
allows. start returns when the queue has been read, and prints {"token": a reader's}. pause stops the service; stop
restores the deployed one.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request

UNIT = "glidein-demand.service"
DEPLOYED = pathlib.Path("/etc/glidein-demand/config.toml")
OURS = pathlib.Path("/etc/glidein-demand-bench")
DROP_IN = pathlib.Path(f"/run/systemd/system/{UNIT}.d/bench.conf")
READY_S = 120

# refresh_seconds = 0 is not a valid setting, so it is set after the check.
ENDLESS = """\
import sys
from msgspec.structs import replace
from glidein_demand import cli, config
parse = config.parse
def endless(data):
    settings = parse(data)
    return replace(settings, pool=replace(settings.pool, refresh_seconds=0))
config.parse = endless
if __name__ == "__main__":
    sys.exit(cli.main())
"""


def unit(name):
    """Return a property of the service's unit."""
    command = ["systemctl", "show", UNIT, "--property", name, "--value"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def program():
    """Return the path of the deployed program."""
    return pathlib.Path(re.search(r"path=(\S+)/bin/", unit("ExecStart")).group(1), "bin", "glidein-demand")


def toml(settings):
    """Return settings as TOML; their values are the same in JSON."""
    return "\n".join(
        f"[{section}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        for section, values in settings.items()
    )


def merged(deployed, changes):
    return {section: {**deployed.get(section, {}), **changes.get(section, {})} for section in {**deployed, **changes}}


def systemctl(*arguments):
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"systemctl {' '.join(arguments)} ended with {done.returncode}: {done.stderr}{journal()}")


def journal():
    """Return the last lines of the service's journal."""
    command = ["journalctl", "--no-pager", "--unit", UNIT, "--lines", "15", "--output", "cat"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def start(changes, endless):
    """Start the service with the changed settings, wait until it has read the queue; return a reader's token."""
    stop(restart=False)
    user = unit("User")
    OURS.mkdir(mode=0o750)
    shutil.chown(OURS, "root", user)
    config, script = OURS / "config.toml", OURS / "endless.py"
    changes.setdefault("state", {})["database"] = "sqlite:////run/glidein-demand-bench/state.db"
    settings = merged(tomllib.loads(DEPLOYED.read_text()), changes)
    for path, text in ((config, toml(settings)), (script, ENDLESS)):
        path.write_text(text)
        path.chmod(0o640)
        shutil.chown(path, "root", user)
    argv = [str(program().with_name("python")), str(script)] if endless else [str(program())]
    DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    DROP_IN.write_text(
        "[Service]\nRuntimeDirectory=glidein-demand-bench\n"
        f"ExecStart=\nExecStart={' '.join(argv)} serve --config {config}\n"
    )
    systemctl("daemon-reload")
    systemctl("start", UNIT)
    wait_until_read(settings["server"]["port"])
    return token(user, config)


def token(user, config):
    """Return a reader's token of the running service."""
    command = ["runuser", "-u", user, "--", str(program()), "token", "create", "bench", "--reader"]
    done = subprocess.run([*command, "--config", str(config)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip().splitlines()[-1]


def wait_until_read(port):
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):  # noqa: S310 - of this host
                return
        except (urllib.error.URLError, OSError) as error:
            if unit("ActiveState") == "failed" or time.monotonic() > deadline:
                sys.exit(f"the service has not read the queue within {READY_S} s: {error}; its journal:\n{journal()}")
            time.sleep(0.2)


def stop(restart):
    """Stop the service and remove what `start` has made; with `restart`, start the service as deployed."""
    systemctl("stop", UNIT)
    DROP_IN.unlink(missing_ok=True)
    shutil.rmtree(OURS, ignore_errors=True)
    systemctl("daemon-reload")
    if restart:
        systemctl("start", UNIT)


def main():
    order = json.load(sys.stdin)
    if order["action"] in ("stop", "pause"):
        stop(restart=order["action"] == "stop")
        json.dump({}, sys.stdout)
    else:
        json.dump({"token": start(order["settings"], order["endless"])}, sys.stdout)


main()
