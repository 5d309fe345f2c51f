# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the commands with their arguments, as root and as another user."""

import grp
import io
import json
import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from glidein_demand import __version__, cli
from glidein_demand.store.leases import LeaseLimits, Pause
from glidein_demand.store.schema import alembic_version
from glidein_demand.store.tokens import Caller, Tokens

from databases import NOW
from running import COMMAND

# Only root may be able to read the tests' Python, so its modules are imported before root changes to another user.
READ_AHEAD = (
    "import locale, os, sys; import sqlalchemy.dialects.sqlite, sqlite3;"
    "from glidein_demand import cli;"
    "become = [int(word) for word in sys.argv[1].split()];"
    "become and (os.setgroups([]), os.setgid(become[1]), os.setuid(become[0]));"
    "sys.exit(cli.main(sys.argv[2:]))"
)
SECRETS = {name: f"correct-horse-battery-{name}" for name in ("A", "B")}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def config(tmp_path, database_url):
    path = tmp_path / "config.toml"
    path.write_text(f"[state]\ndatabase = {json.dumps(database_url)}\n")
    return path


@pytest.fixture
def run(config, capsys, monkeypatch):
    """Return a function: run("token", "list") -> (exit status, stdout, stderr)."""

    def run(*words, stdin=None):
        if stdin is not None:
            text = stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        try:
            status = cli.main(["--config", str(config), *words])
        except SystemExit as end:
            status = end.code
        return (status, *capsys.readouterr())

    return run


def one_line(answer):
    """Return the only line on stderr of a command that ended with status 2."""
    status, out, err = answer
    assert (status, out, err.count("\n"), err[-1:]) == (2, "", 1, "\n")
    assert err.startswith("glidein-demand: ")
    return err


def test_pausing_and_resuming(run, database, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "ada")
    off = {"paused": False, "since": None, "reason": "", "by": ""}
    assert json.loads(run("pause", "--show")[1]) == off
    assert run("pause", "--reason", "disks full")[0] == 0
    state = Pause(database).state()
    assert json.loads(run("pause", "--show")[1]) == state
    assert state == {"paused": True, "since": state["since"], "reason": "disks full", "by": "ada"}
    assert run("resume") == (0, "resumed: leases are granted\n", "")
    assert Pause(database).state() == off


@pytest.mark.parametrize("reason", ["two\nlines", "x" * 301, "\x1b[31m"])
def test_a_reason_is_one_line_of_text(run, database, reason):
    assert "--reason must be one line of at most 300 characters" in one_line(run("pause", "--reason", reason))
    assert Pause(database).state()["paused"] is False


def test_a_new_token_is_the_only_text_on_stdout(run, database):
    status, out, err = run("token", "create", "PSC")
    assert (status, out.count("\n")) == (0, 1)
    assert Tokens(database).identify(out.strip()) == Caller("PSC", "site")
    assert out.strip() not in err
    _status, reader, err = run("token", "create", "grafana", "--reader")
    assert Tokens(database).identify(reader.strip()) == Caller("grafana", "reader")
    assert "the reader grafana" in err


def test_a_token_is_revoked_by_name(run, database):
    _status, out, _err = run("token", "create", "PSC")
    assert run("token", "revoke", "PSC") == (0, "revoked: PSC\n", "")
    assert Tokens(database).identify(out.strip()) is None
    assert "unknown token 'PSC'" in one_line(run("token", "revoke", "PSC"))


def test_the_list_has_no_secret_and_fits_a_terminal(run, database):
    names = ["N" * 64, "PSC"]
    secrets = [run("token", "create", name)[1].strip() for name in names]
    status, out, err = run("token", "list")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0].split() == ["NAME", "KIND", "ORIGIN", "CREATED", "USED"]
    assert [(line.split()[0], line.split()[-1]) for line in lines[1:]] == [(name, "never") for name in names]
    rows = json.loads(run("token", "list", "--json")[1])
    assert [row["name"] for row in rows] == names
    assert set(rows[0]) == {"name", "kind", "origin", "created", "last_used"}
    assert not any(secret in out + json.dumps(rows) for secret in secrets)
    row = {"name": "N" * 64, "kind": "reader", "origin": "command", "created": NOW}
    ago_s = {"never": None, "0 d": -60, "2 d": 2 * 86400, "999 d": 999 * 86400, "2 y": 1000 * 86400}
    table = cli.token_table([{**row, "last_used": ago and NOW - ago} for ago in ago_s.values()], NOW)
    assert max(map(len, table.splitlines())) <= 100
    assert [line.split("  ")[-1].strip() for line in table.splitlines()[1:]] == list(ago_s)


def test_tokens_of_the_role_come_from_stdin(run, database):
    assert run("token", "sync", stdin=SECRETS) == (0, '{"created": ["A", "B"], "changed": [], "revoked": []}\n', "")
    assert [row["origin"] for row in Tokens(database).rows()] == ["role", "role"]
    expected = '{"created": [], "changed": ["A"], "revoked": ["B"]}\n'
    for options, left in ((["--check"], "A"), ([], None)):
        assert run("token", "sync", *options, stdin={"A": SECRETS["B"]}) == (0, expected, "")
        assert Tokens(database).identify(SECRETS["A"]) == (left and Caller(left, "site"))


def test_lease_limits_of_the_role_come_from_stdin(run, database):
    changed = '{"A": [null, 5], "B": [null, 7]}\n'
    assert run("lease-limits", "--check", stdin={"A": 5, "B": 7}) == (0, changed, "")
    assert LeaseLimits(database).of("A") is None
    assert run("lease-limits", stdin={"A": 5, "B": 7}) == (0, changed, "")
    assert LeaseLimits(database).of("A") == 5
    assert run("lease-limits", stdin={"A": 5}) == (0, '{"B": [7, null]}\n', "")
    assert "the limit of A is 'many'" in one_line(run("lease-limits", stdin={"A": "many"}))
    assert "must be a JSON object: {site: jobs}" in one_line(run("lease-limits", stdin=[]))


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        (b"", "must be JSON"),
        (b'{"A": "correct-horse-battery', "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"[" * 100_000, "must be JSON"),
        (b'["correct-horse-battery"]', "must be a JSON object"),
        (b'"correct-horse-battery"', "must be a JSON object"),
        (b'{"A": "correct-horse-battery-A", "A": "correct-horse-battery-B"}', "has a site twice"),
    ],
)
def test_an_invalid_list_of_tokens_is_refused_and_not_quoted(run, database, stdin, words):
    line = one_line(run("token", "sync", stdin=stdin))
    assert words in line
    assert "horse" not in line
    assert Tokens(database).rows() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required"),
        (["token"], "the following arguments are required"),
        (["token", "create"], "NAME"),
        (["stop"], "invalid choice: 'stop'"),
        (["pause", "now"], "unrecognized arguments: now"),
    ],
)
def test_an_invalid_command_prints_one_line(run, words, said):
    assert said in one_line(run(*words))


def test_the_configuration_may_be_named_before_or_after_the_command(config, capsys):
    assert cli.main(["--config", str(config), "token", "list"]) == 0
    assert cli.main(["token", "list", "--config", str(config)]) == 0
    assert cli.main(["--config", "/nonexistent", "token", "--help"][:2] + ["token", "list"]) == 2
    assert "/nonexistent: cannot be read: No such file" in capsys.readouterr().err


def test_the_version_is_printed(run):
    assert run("--version") == (0, f"glidein-demand {__version__}\n", "")


def test_the_error_of_a_newer_database_is_one_line(run, database, config):
    with database.begin() as connection:
        connection.execute(alembic_version.update().values(version_num="9999"))
    line = one_line(run("token", "list"))
    assert line.startswith(f"glidein-demand: {config}: state.database: ")
    assert "has the tables of another version of glidein-demand: revision 9999" in line


# Tests of files are about SQLite, whatever database the other tests use.


def settings_in(folder, extra=""):
    """Write a configuration whose database is in `folder`/state; return its path."""
    path = folder / "config.toml"
    path.write_text(f"{extra}\nstate.database = 'sqlite:///{folder}/state/state.db'\n")
    return path


def answer(*words, command=None, **options):
    """Run a command; return (exit status, stdout, stderr)."""
    done = subprocess.run(
        [*(command or COMMAND), *map(str, words)], capture_output=True, text=True, timeout=120, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def answer_as(user, *words, **options):
    """Run a command as this user (an entry of /etc/passwd) or as root (None)."""
    command = [sys.executable, "-c", READ_AHEAD, f"{user.pw_uid} {user.pw_gid}" if user else ""]
    return answer(*words, command=command, **options)


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["check"], ""),
        (["pause", "--show"], '{"paused": false, "since": null, "reason": "", "by": ""}\n'),
        (["token", "sync", "--check"], '{"created": ["A", "B"], "changed": [], "revoked": []}\n'),
        (["lease-limits", "--check"], '{"A": [null, 1]}\n'),
    ],
)
def test_what_only_reads_makes_no_database(tmp_path, words, out):
    (tmp_path / "state").mkdir()
    stdin = json.dumps(SECRETS) if "sync" in words else '{"A": 1}'
    path = settings_in(tmp_path, "pool.constraint = 'WantX == 1'")
    assert answer("--config", path, *words, input=stdin) == (0, out, "")
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("pool.constraint = 'WantX =='", "pool.constraint = 'WantX =='"),
        ("state.database = 'postgres://user:secret@host/d'", "state.database: "),
    ],
)
def test_check_reports_an_invalid_configuration_of_a_file_or_of_standard_input(tmp_path, toml, words):
    path = tmp_path / "config.toml"
    path.write_text(toml)
    for name in (path, "-"):
        line = one_line(answer("check", "--config", name, input=toml))
        assert line.startswith(f"glidein-demand: {name}: {words}")
        assert "secret" not in line


@pytest.mark.parametrize("command", [["pause"], ["token", "list"], ["serve"]])
def test_the_error_of_a_missing_database_directory_is_one_line(tmp_path, command):
    path = settings_in(tmp_path)
    status, out, err = answer("--config", path, *command)
    assert status == (1 if command == ["serve"] else 2)
    error = f"glidein-demand: {path}: state.database: cannot be used: [Errno 2] No such file or directory"
    assert one_line((2, out, err)).startswith(error)


@pytest.mark.parametrize("command", [["pause"], ["token", "create", "A"]])
def test_without_a_configuration_a_command_needs_the_directory_of_the_server(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("glidein_demand.config.DEFAULT_CONFIG", "config.toml")
    line = one_line((cli.main(command), *capsys.readouterr()))
    assert f"state.database: {tmp_path}/glidein-demand.db does not exist; run this where the server was started" in line
    assert list(tmp_path.iterdir()) == []


def test_with_a_configuration_a_command_may_be_the_first_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text("state.database = 'sqlite:///glidein-demand.db'\n")
    assert cli.main(["--config", "config.toml", "token", "create", "A"]) == 0, capsys.readouterr()


@pytest.fixture
def open_folder():
    """Return a folder that every user may list. Its state directory is owned by the user `nobody`."""
    with tempfile.TemporaryDirectory(prefix="glidein-demand-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "state").mkdir(mode=0o700)
        nobody = pwd.getpwnam("nobody")
        os.chown(folder / "state", nobody.pw_uid, nobody.pw_gid)
        yield folder, nobody


@as_root
@pytest.mark.parametrize("words", [["pause"], ["pause", "--show"], ["token", "list"], ["token", "sync"], ["serve"]])
def test_root_is_refused_and_leaves_no_file(open_folder, words):
    folder, _nobody = open_folder
    line = one_line(answer_as(None, "--config", settings_in(folder), *words, input="{}"))
    assert f"{folder}/state belongs to nobody; run this with: sudo -u nobody " in line
    assert line.endswith(f" {shlex.join(words)}\n")
    assert list((folder / "state").iterdir()) == []


@pytest.mark.parametrize(
    ("file", "mode", "started_by"),
    [
        ("bin/glidein-demand", 0o755, []),
        ("lib/glidein-demand.py", 0o644, [sys.executable]),  # as the role's wrapper starts it
    ],
)
def test_the_printed_command_can_be_run(tmp_path, monkeypatch, file, mode, started_by):
    path = tmp_path / file
    path.parent.mkdir()
    path.touch(mode)
    monkeypatch.setattr(sys, "argv", [str(path), "pause"])
    assert cli.program() == [*started_by, str(path)]


@as_root
def test_the_owner_of_the_directory_makes_private_files(open_folder):
    folder, nobody = open_folder
    status, _out, err = answer_as(nobody, "--config", settings_in(folder), "pause", umask=0)
    assert status == 0, err
    found = {file.name: file.stat() for file in (folder / "state").iterdir()}
    assert "state.db" in found
    assert {(status.st_uid, status.st_mode & 0o777) for status in found.values()} == {(nobody.pw_uid, 0o600)}


@as_root
def test_another_user_gets_the_advice_to_use_sudo(open_folder):
    folder, _nobody = open_folder
    daemon = pwd.getpwnam("daemon")
    path = settings_in(folder)
    line = one_line(answer_as(daemon, "--config", path, "pause"))
    assert f"{folder}/state belongs to nobody; run this with: sudo -u nobody" in line
    path.chmod(0o600)
    os.chown(folder, 0, grp.getgrnam("games").gr_gid)
    line = one_line(answer_as(daemon, "--config", path, "pause"))
    assert f"{path}: cannot be read: Permission denied; run this as the service's user, with: sudo -u games " in line
    assert line.endswith(f" --config {path} pause\n")
    os.chown(folder, 0, 0)
    assert one_line(answer_as(daemon, "--config", path, "pause")).endswith("; run this as the service's user\n")


@as_root
def test_the_printed_command_names_the_module_that_python_was_started_with(open_folder):
    folder, _nobody = open_folder
    line = one_line(answer("--config", settings_in(folder), "pause"))
    assert f": sudo -u nobody {shlex.join(COMMAND)} --config " in line
