# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: systemd containers on one podman network, each standing for a real host, reached by real SSH.

    lab.py up [HOST...]   build what is missing, start what is stopped, write .lab/NAME/   (seconds when all is up)
    lab.py down           remove the containers, the network and .lab/NAME; the images stay, as a cache
    lab.py status         one line per host
    lab.py purge          down, and the images too

Without HOST, the hosts of the demo: `cm` and `slurm`. `up` leaves the others as they are.

The environment variable LAB names the lab (default glidein-lab), so that two of them live on one machine; LAB_IMAGES
names another lab whose images it shares (default: its own).
The hosts `pbs` and `torque` are built from source archives, which LAB_OPENPBS_SOURCE and LAB_TORQUE_SOURCE name (a path
or an address; default: the public release). If an archive cannot be read, `up` exits with status 69 and the reason.
The host `ce` has HTCondor-CE from the archive that LAB_HTCONDOR_CE_SOURCE names. If it cannot be read, `up` prints the
reason, and HTCondor with the same port, ads and routes stands in.
Nothing of the user's podman beside NAME-* containers, the NAME network and localhost/NAME-* images is touched.
Only the Python standard library: it runs before anything is installed.
"""

import argparse
import contextlib
import fcntl
import hashlib
import http.client
import ipaddress
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

from engine import LabError, build_base, podman, preflight, run_flags

ROOT = Path(__file__).resolve().parents[2]
IMAGES = Path(__file__).resolve().parent / "images"

# host -> (published container ports, {ssh alias: user})
HOSTS = {
    "cm": ((22, 9618, 11001), {"cm": "admin", "cm-alice": "alice"}),
    "slurm": ((22,), {"slurm": "glidein", "slurm-root": "root", "slurm-2fa": "glidein2fa"}),
    "sge": ((22,), {"sge": "glidein", "sge-root": "root"}),
    "htc": ((22,), {"htc": "glidein", "htc-root": "root"}),
    "bastion": ((22,), {"bastion-root": "root", "bastion": "jump"}),
    "s3": ((22, 7480), {"s3-root": "root"}),
    "pbs": ((22,), {"pbs": "glidein", "pbs-root": "root"}),
    "torque": ((22,), {"torque": "glidein", "torque-root": "root"}),
    "slurm-accounting": ((22,), {"slurm-accounting": "pilot", "slurm-accounting-root": "root"}),
    "ce": ((22, 9619), {"ce": "glidein", "ce-root": "root"}),
}
USUAL = ("cm", "slurm")
# Host whose image is made from that of another host -> that host.
MADE_FROM = {"slurm-accounting": "slurm", "ce": "slurm"}
# Host that is built from the source of its batch system or CE -> the environment variable that names an archive, a path
# or an address, and the default: the public release.
SOURCES = {
    "pbs": ("LAB_OPENPBS_SOURCE", "https://github.com/openpbs/openpbs/archive/refs/tags/v23.06.06.tar.gz"),
    "torque": ("LAB_TORQUE_SOURCE", "https://github.com/adaptivecomputing/torque/archive/refs/heads/6.1.3.h5.tar.gz"),
    "ce": ("LAB_HTCONDOR_CE_SOURCE", "https://github.com/htcondor/htcondor-ce/archive/refs/tags/v25.0.1.tar.gz"),
}
# Host in SOURCES whose image can be built without the archive, from an empty file in its place -> what stands in.
STAND_INS = {"ce": "HTCondor with the same port, ads and routes stands in for HTCondor-CE"}
# The image that tests/execution_environment.py builds.
EXECUTION_ENVIRONMENT = "ee"
UNAVAILABLE = 69  # exit status (EX_UNAVAILABLE): such an archive cannot be read
SSH_WAIT_S = 600  # only ends a hang
_started = time.monotonic()


def say(text):
    """Print a line of progress with the elapsed time."""
    print(f"[{time.monotonic() - _started:6.1f} s] {text}", flush=True)


class UnavailableError(LabError):
    """The source archive of a host cannot be read."""


class Lab:
    """A lab: its name, its state directory, and the commands that start and remove it."""

    def __init__(self, name, images=None):
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
            raise LabError(f"LAB={name!r}: a lab's name is lower-case letters, digits and '-', at most 31 of them")
        self.name = name
        self.images = images or name
        self.state = ROOT / ".lab" / name
        self.key = self.state / "id_ed25519"

    def container(self, host):
        return f"{self.name}-{host}"

    def image(self, which):
        return f"localhost/{self.images}-{which}"

    @contextlib.contextmanager
    def locked(self):
        """Lock the lab, so that two `make lab` do not build the same image at the same time."""
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.state / "lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    # -- up -------------------------------------------------------------------------------------------------

    def up(self, hosts=USUAL):
        with self.locked():
            if not self.key.exists():
                _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.key)])
            tags = self._images(hosts)
            if not podman("network", "exists", self.name, check=False).ok:
                podman("network", "create", self.name)
                say(f"network {self.name} created")
            for host in hosts:
                self._start(host, tags[host])
            for host in hosts:
                self._authorise(host)
            self._write_ssh_config()
            for host in hosts:
                self._wait_for_ssh(host)
            say("up: " + ", ".join(self.container(host) for host in hosts))

    def base(self):
        """Build the base image if it is missing; return its name."""
        authorities = trusted_authorities()
        base = f"{self.image('base')}:{_digest([IMAGES / 'base', *authorities])}"
        if not podman("image", "exists", base, check=False).ok:
            say("building the base image (Debian 13 with systemd and sshd): a minute the first time")
            with tempfile.TemporaryDirectory() as context:
                shutil.copytree(IMAGES / "base", context, dirs_exist_ok=True)
                # The lab's hosts trust the same certificate authorities as this machine. Without them, downloads
                # through a TLS-inspecting proxy fail.
                trusted = Path(context, "ca-certificates")
                trusted.mkdir()
                for path in authorities:
                    shutil.copy(path, trusted)
                build_base(context, base, say)
        return base

    def _images(self, hosts):
        """Build the missing images. An image's tag is the hash of its sources, so an edit makes a new image."""
        base = self.base()
        tags = {}
        for host in dict.fromkeys([*(MADE_FROM[host] for host in hosts if host in MADE_FROM), *hosts]):
            tags[host] = self._build(host, tags.get(MADE_FROM.get(host), base))
        return tags

    def _build(self, host, parent):
        """Build the image of a host if it is missing; return its name."""
        name = self._name_of(host, parent + _source_id(host))
        if podman("image", "exists", name, check=False).ok:
            return name
        with tempfile.TemporaryDirectory() as context:
            shutil.copytree(IMAGES / host, context, dirs_exist_ok=True)
            if host in SOURCES:
                archive = Path(context, "source.tar.gz")
                try:
                    _fetch_source(host, archive)
                except UnavailableError as error:
                    if host not in STAND_INS:
                        raise
                    say(f"{STAND_INS[host]}: {error}")
                    archive.write_bytes(b"")
                    name = self._name_of(host, f"{parent} without source")
                    if podman("image", "exists", name, check=False).ok:
                        return name
            say(f"building the image of {host}")
            command = ["build", "-q", "--isolation=chroot", "--build-arg", f"BASE={parent}", "-t", name]
            podman(*command, context, timeout=7200)
        return name

    def _name_of(self, host, salt):
        """Return the name of a host's image: its tag is the hash of its sources and of `salt`."""
        return f"{self.image(host)}:{_digest([IMAGES / host], salt)}"

    def _start(self, host, image):
        name = self.container(host)
        published = "-".join(str(port) for port in HOSTS[host][0])
        values = '{{.State.Status}} {{.ImageName}} ports={{index .Config.Labels "ports"}}'
        found = podman("container", "inspect", "-f", values, name, check=False)
        if found.ok:
            status, *made_from = found.out.split()
            if made_from != [image, f"ports={published}"]:
                say(f"{name} was made from an older image, or with other ports: replacing it")
                podman("rm", "-f", "-t", "5", name)
            elif status == "running":
                return
            else:
                say(f"{name} is {status}: starting it")
                if podman("start", name, check=False).ok:
                    return
                say(f"{name} does not start again: replacing it")
                podman("rm", "-f", "-t", "5", name)
        ports = [flag for port in HOSTS[host][0] for flag in ("-p", f"127.0.0.1::{port}")]
        podman(
            "run",
            "-d",
            "--name",
            name,
            "--hostname",
            host,
            "--network",
            self.name,
            "--network-alias",
            host,
            "--ip",
            self._address(host),
            "--systemd=always",
            "--label",
            f"lab={self.name}",
            "--label",
            f"ports={published}",
            *ports,
            # As on a real host, a service may have a higher priority.
            "--cap-add=SYS_NICE",
            # As on a real host, its administrator may filter packets.
            "--cap-add=NET_ADMIN",
            *run_flags(),
            image,
        )
        say(f"{name} started")

    def _address(self, host):
        """Return the fixed address of a host, which stays the same after a restart."""
        subnet = podman("network", "inspect", self.name, "--format", "{{(index .Subnets 0).Subnet}}").out
        return str(ipaddress.ip_network(subnet)[10 + list(HOSTS).index(host)])

    def _authorise(self, host):
        """Install the lab's public key for each login of the host; safe to repeat."""
        key = Path(f"{self.key}.pub").read_text(encoding="ascii")
        script = "install -d -m 755 /etc/ssh/lab-keys && cat > /etc/ssh/lab-keys/authorized_keys"
        deadline = time.monotonic() + SSH_WAIT_S
        while not podman("exec", "-i", self.container(host), "sh", "-c", script, check=False, stdin=key).ok:
            if time.monotonic() > deadline:
                raise LabError(
                    f"{self.container(host)}: no command runs in it; see `podman logs {self.container(host)}`"
                )
            time.sleep(0.5)

    def _write_ssh_config(self):
        known, blocks = [], []
        for host, (_ports, aliases) in HOSTS.items():
            if not self._running(host):
                continue
            port = self.port(host, 22)
            public = self._host_key(host)
            known.append(f"[127.0.0.1]:{port} {public}")
            for alias, user in aliases.items():
                blocks.append(f"Host {alias}\n  Hostname 127.0.0.1\n  Port {port}\n  User {user}\n")
        # Paths are absolute, because ssh reads a relative IdentityFile from the caller's directory.
        common = (
            f"Host *\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile "
            f"{self.state / 'known_hosts'}\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        )
        _write(self.state / "known_hosts", "".join(line + "\n" for line in known))
        _write(self.state / "ssh_config", "".join(blocks) + common)
        if self._running("cm"):
            _write(self.state / "demand_url", f"http://127.0.0.1:{self.port('cm', 11001)}")
            _write(self.state / "pool_collector", f"127.0.0.1:{self.port('cm', 9618)}")
        if self._running("s3"):
            _write(self.state / "s3_url", f"http://127.0.0.1:{self.port('s3', 7480)}")
        if self._running("ce"):
            _write(self.state / "ce_collector", f"127.0.0.1:{self.port('ce', 9619)}")

    def _running(self, host):
        found = podman("container", "inspect", "-f", "{{.State.Status}}", self.container(host), check=False)
        return found.ok and found.out == "running"

    def _host_key(self, host):
        deadline = time.monotonic() + SSH_WAIT_S
        while True:
            found = podman("exec", self.container(host), "cat", "/etc/ssh/ssh_host_ed25519_key.pub", check=False)
            if found.ok and found.out:
                return " ".join(found.out.split()[:2])
            if time.monotonic() > deadline:
                raise LabError(f"{self.container(host)}: sshd has made no host key after {SSH_WAIT_S} s: {found.err}")
            time.sleep(0.5)

    def _wait_for_ssh(self, host):
        alias = next(iter(HOSTS[host][1]))
        command = ["ssh", "-F", str(self.state / "ssh_config"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", alias]
        deadline = time.monotonic() + SSH_WAIT_S
        while True:
            # `--wait` returns after boot. Failed units are printed only, because tests break services on purpose.
            done = subprocess.run(
                [*command, "systemctl", "is-system-running", "--wait"],
                capture_output=True,
                text=True,
                timeout=SSH_WAIT_S,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            state = done.stdout.strip()
            if state == "running":
                return
            if state == "degraded":
                failed = podman("exec", self.container(host), "systemctl", "--failed", "--plain", "--no-legend").out
                units = ", ".join(line.split()[0] for line in failed.splitlines() if line.strip())
                say(f"warning: {self.container(host)} is degraded, failed units: {units}")
                return
            if time.monotonic() > deadline:
                said = done.stderr.strip() or state
                raise LabError(f"{self.container(host)}: no SSH login after {SSH_WAIT_S} s: {said}")
            time.sleep(0.5)

    def port(self, host, inside):
        """Return the port of 127.0.0.1 that is forwarded to port `inside` of the host."""
        return int(podman("port", self.container(host), f"{inside}/tcp").out.splitlines()[0].rsplit(":", 1)[1])

    # -- down and status ------------------------------------------------------------------------------------

    def down(self):
        for host in HOSTS:
            if podman("container", "exists", self.container(host), check=False).ok:
                podman("rm", "-f", "-t", "5", self.container(host))
                say(f"{self.container(host)} removed")
        if podman("network", "exists", self.name, check=False).ok:
            podman("network", "rm", self.name)
            say(f"network {self.name} removed")
        shutil.rmtree(self.state, ignore_errors=True)

    def purge(self):
        self.down()
        listed = podman("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").out.split()
        names = tuple(self.image(which) + ":" for which in ("base", EXECUTION_ENVIRONMENT, *HOSTS))
        for image in (name for name in listed if name.startswith(names)):
            podman("rmi", "-f", image)
            say(f"{image} removed")

    def status(self):
        for host in HOSTS:
            found = podman("container", "inspect", "-f", "{{.State.Status}}", self.container(host), check=False)
            print(f"{self.container(host):30} {found.out.strip() if found.ok else 'absent'}")


def trusted_authorities():
    """Return the files of the certificate authorities that this machine trusts beside those of its distribution."""
    return sorted(Path("/usr/local/share/ca-certificates").glob("*.crt"))


def _source(host):
    """Return the path or the address of the source archive of a host in SOURCES."""
    variable, released = SOURCES[host]
    return os.environ.get(variable) or released


def _source_id(host):
    """Return what identifies a source archive; "" for a host without one."""
    if host not in SOURCES:
        return ""
    source = _source(host)
    return _digest([Path(source)]) if Path(source).is_file() else source


def _fetch_source(host, path):
    """Copy or download the source archive of a host to `path`. Raises UnavailableError."""
    source = _source(host)
    say(f"fetching the source of {host}: {source}")
    try:
        if "://" in source:
            with urllib.request.urlopen(source, timeout=60) as reply, path.open("wb") as copy:  # noqa: S310
                shutil.copyfileobj(reply, copy)
        else:
            shutil.copy(source, path)
        with tarfile.open(path, "r:gz"):
            pass
    except (OSError, http.client.HTTPException, ValueError, tarfile.TarError) as error:
        raise UnavailableError(
            f"{host}: the source archive {source} cannot be read: {error}; set {SOURCES[host][0]} to the path or the "
            "address of a .tar.gz"
        ) from error


def _run(command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _write(path, text):
    """Replace a private file atomically."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _digest(paths, salt=""):
    """Return 12 hex digits of a hash over the names and contents of the files below `paths`."""
    sums = hashlib.sha256(salt.encode())
    for top in paths:
        for path in sorted(p for p in ([top] if top.is_file() else top.rglob("*")) if p.is_file()):
            sums.update(path.name.encode() + b"\0" + path.read_bytes())
    return sums.hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser(description="the lab of systemd containers")
    parser.add_argument("action", choices=("up", "down", "status", "purge"))
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=f"with `up`: any of {', '.join(HOSTS)}")
    options = parser.parse_args()
    action, hosts = options.action, options.hosts
    if set(hosts) - set(HOSTS) or (hosts and action != "up"):
        parser.error(f"hosts go with `up`, and they are {', '.join(HOSTS)}")
    try:
        if not shutil.which("podman") and action != "up":
            return print("no podman here, so no lab either")
        if action == "up":
            preflight(say)
        getattr(Lab(os.environ.get("LAB") or "glidein-lab", os.environ.get("LAB_IMAGES")), action)(
            *([hosts] if hosts else [])
        )
    except UnavailableError as error:
        print(f"lab: {error}", file=sys.stderr)
        sys.exit(UNAVAILABLE)
    except LabError as error:
        sys.exit(f"lab: {error}")


if __name__ == "__main__":
    main()
