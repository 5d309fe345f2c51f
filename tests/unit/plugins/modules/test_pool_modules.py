# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the central manager's modules as Ansible runs them, with stand-ins for HTCondor's commands."""

import io
import json
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.central_manager import tarballs
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.htcondor_files import Item
from ansible_collections.glidein.ops.plugins.modules import (
    condor_config_info,
    login_node_info,
    revoked_glideins,
    revoked_sites,
    site_tokens,
    tarball,
    token_signing_key,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import run_module
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

CONFIG_VAL = """#!/bin/sh
case "$*" in
UID_DOMAIN|TRUST_DOMAIN) echo pool ;;
SEC_PASSWORD_DIRECTORY) dirname {key} ;;
SEC_TOKEN_POOL_SIGNING_KEY_FILE) echo {key} ;;
"-collector ALLOW_DAEMON") echo 'a@pool, b@pool' ;;
*) echo "Not defined: $1" >&2; exit 1 ;;
esac
"""
# Prints a token as condor_token_create does. The arguments determine the claims.
CREATE_COMMAND = """#!{python}
import base64, json, sys, time
now = int(time.time())
claims = dict(iat=now, exp=now + int(sys.argv[4]), iss="pool", sub=sys.argv[2],
              scope="condor:/ADVERTISE_MASTER condor:/ADVERTISE_STARTD")
parts = [json.dumps(part).encode() for part in (dict(alg="HS256"), claims)] + [b"signature"]
print(".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts))
"""


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return a function that adds a command to PATH, which contains no HTCondor command at first."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return lambda name, text: write_program(tmp_path / "bin" / name, text)


@pytest.fixture
def pool(commands, tmp_path):
    """Install the commands of a pool with a signing key."""
    key = tmp_path / "POOL"
    key.write_bytes(b"the key")
    commands("condor_config_val", CONFIG_VAL.format(key=key))
    commands("condor_token_create", CREATE_COMMAND.format(python=sys.executable))
    return tmp_path


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- site_tokens


def tokens(pool, check=False, **changes):
    options = {
        "directory": str(pool / "dir" / "tokens"),
        "sites": ["a", "b"],
        "lifetime": "30d",
        "renew_before": "15d",
        "state_directory": str(pool / "dir"),
    }
    return run_module(site_tokens.main, dict(options, **changes), check, diff=True)


def test_tokens_of_all_sites_are_minted_in_one_run_and_are_not_in_the_result(pool):
    check = tokens(pool, check=True)
    assert (check["changed"], sorted(check["minted"]), (pool / "dir").exists()) == (True, ["a", "b"], False)
    done = tokens(pool)
    assert (done["changed"], done["minted"]) == (True, {"a": "no token", "b": "no token"})
    token = (pool / "dir/tokens/a").read_text()
    assert token.count(".") == 2
    assert token.strip().split(".")[1] not in json.dumps(done)
    assert tokens(pool)["changed"] is False


def test_a_token_of_a_revoked_site_is_minted_again(pool):
    tokens(pool)
    until = 4102444800  # later than the token's issue
    (pool / "dir/revoked.json").write_text(
        json.dumps({"sites": {"a": {"before": until, "denied": False, "machines": []}}})
    )
    assert tokens(pool, check=True)["minted"] == {"a": "it was revoked"}
    assert "invalid token for glidein-a@pool: it was revoked" in tokens(pool)["msg"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"sites": ["../a"]}, "sites: '../a' is invalid; expected 1 to 64 letters"),
        ({"lifetime": "2 fortnights"}, "lifetime: '2 fortnights' is invalid; expected seconds as a number, or text"),
        ({"renew_before": "30d"}, "renew_before: 30d is invalid; expected less than lifetime=30d"),
    ],
)
def test_an_invalid_option_is_quoted(pool, changes, error):
    result = tokens(pool, **changes)
    assert result["failed"]
    assert error in result["msg"]


def test_without_htcondor_a_check_reports_a_change_and_a_run_fails(tmp_path, commands):
    check = tokens(tmp_path, check=True)
    assert (check["changed"], check["minted"]) == (True, {})
    assert "condor_config_val UID_DOMAIN could not be started" in check["reason"]
    assert "condor_config_val UID_DOMAIN could not be started" in tokens(tmp_path)["msg"]


# --- token_signing_key

# Stores standard input in the file of option -f, as condor_store_cred does.
STORE_COMMAND = """#!/bin/sh
[ "$1 $2 $3 $5 $6" = "add -c -f -i -" ] && cat >"$4"
"""
# Accepts a token whose key is in the directory, if it is the only credential.
PING_COMMAND = """#!/bin/sh
[ "$_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS" = IDTOKENS ] && [ "$*" = "-type collector ADVERTISE_STARTD" ] &&
  [ "$(stat -c %a "$_CONDOR_SEC_TOKEN_DIRECTORY"/*)" = 600 ] && [ ! -e "$_CONDOR_SEC_PASSWORD_DIRECTORY" ] || exit 2
"""


@pytest.fixture
def keys(pool, commands):
    """Return a function that runs the module; the pool's key is in pool/passwords.d."""
    folder = pool / "passwords.d"
    folder.mkdir()
    (pool / "POOL").rename(folder / "POOL")
    commands("condor_config_val", CONFIG_VAL.format(key=folder / "POOL"))
    commands("condor_store_cred", STORE_COMMAND)
    commands("condor_ping", PING_COMMAND)

    def run(state, check=False, site="a"):
        options = {"directory": str(pool / "dir"), "state": state}
        if state == "rotated":
            options["site"] = site
        return run_module(token_signing_key.main, options, check, diff=True)

    return run


def test_a_new_key_signs_new_tokens_until_the_old_one_is_removed(keys, pool):
    folder = pool / "passwords.d"
    tokens(pool)
    check = keys("rotated", check=True)
    assert (check["changed"], check["previous"], [path.name for path in folder.iterdir()]) == (True, "POOL", ["POOL"])
    done = keys("rotated")
    first = done["current"]
    assert (done["changed"], done["previous"]) == (True, "POOL")
    assert (mode(folder / first), mode(pool / "dir/signing-keys.json")) == (0o600, 0o600)
    assert (folder / first).read_text() not in json.dumps(done)
    assert tokens(pool)["minted"] == dict.fromkeys("ab", "the signing key has changed")
    assert tokens(pool)["changed"] is False
    # A second run, as after an interruption, does not create a third key.
    again = keys("rotated")
    assert (again["changed"], again["current"]) == (False, first)

    # The module keeps the pool's own key and removes a key that it has created.
    assert keys("finished", check=True)["changed"] is True
    finished = keys("finished")
    assert (finished["changed"], finished["removed"], finished["previous"]) == (True, [], None)
    assert keys("finished")["changed"] is False
    stale = folder / "glidein-ops-20200101T000000Z"
    stale.write_text("of an interrupted run")
    (folder / "glidein-ops-of-an-operator").write_text("x")
    assert keys("finished")["removed"] == [stale.name]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["POOL", first, "glidein-ops-of-an-operator"])
    assert keys("absent")["removed"] == [first]
    assert sorted(path.name for path in folder.iterdir()) == ["POOL", "glidein-ops-of-an-operator"]
    assert keys("absent")["changed"] is False


def test_a_key_that_the_collector_refuses_is_not_used(keys, pool, commands):
    commands("condor_ping", "#!/bin/sh\necho 'ADVERTISE_STARTD failed!' >&2; exit 1\n")
    result = keys("rotated")
    assert "the running collector refuses a token of the new signing key glidein-ops-" in result["msg"]
    assert "ADVERTISE_STARTD failed!" in result["msg"]
    assert [path.name for path in (pool / "passwords.d").iterdir()] == ["POOL"]
    assert not (pool / "dir").exists()


@pytest.mark.parametrize("state", ['{"current": "../POOL", "previous": null}', "[]", "{}", ""])
def test_an_invalid_state_of_the_keys_is_an_error(keys, pool, state):
    (pool / "dir").mkdir()
    (pool / "dir/signing-keys.json").write_text(state)
    assert "signing-keys.json" in keys("rotated")["msg"]
    assert "signing-keys.json" in tokens(pool)["msg"]


def test_a_missing_key_is_an_error_that_names_the_remedy(keys, pool):
    name = keys("rotated")["current"]
    (pool / "passwords.d" / name).unlink()
    message = tokens(pool)["msg"]
    assert f"{name} cannot be read" in message and "glidein.ops.deploy" in message


def test_a_key_needs_a_valid_site(keys):
    assert "site: '../a' is invalid" in keys("rotated", site="../a")["msg"]


def test_without_htcondor_there_is_no_key_to_remove(tmp_path, commands):
    options = {"directory": str(tmp_path), "state": "absent"}
    assert run_module(token_signing_key.main, options)["changed"] is False


# --- revoked_sites, revoked_glideins


def revoke(pool, sites, check=False, known=("a", "b")):
    options = {"directory": str(pool / "dir"), "sites": sites, "known_sites": list(known)}
    return run_module(revoked_sites.main, options, check, diff=True)


def test_older_tokens_of_trusted_sites_are_withdrawn(pool):
    options = {"directory": str(pool / "dir"), "sites": [], "issued": {"a": 100}, "gateways_issued": {"a": 50}}
    assert run_module(revoked_sites.main, options)["sites"] == [{"site": "a", "before": 49, "denied": False}]
    result = run_module(revoked_sites.main, dict(options, issued={"a": None, "/": 1}, gateways_issued={"a": "x"}))
    for error in ("issued: None of a is invalid", "'/' is invalid", "gateways_issued: 'x' of a is invalid"):
        assert error in result["msg"]


def test_a_revocation_is_recorded_once(pool):
    check = revoke(pool, ["a"], check=True)
    assert (check["changed"], (pool / "dir").exists()) == (True, False)
    done = revoke(pool, ["a"])
    assert done["changed"] is True
    assert [(each["site"], each["denied"]) for each in done["sites"]] == [("a", True)]
    assert done["denied_identities"] == ["glidein-a@*"]
    assert done["diff"]["after"].startswith("a: revoked, tokens issued until ")
    assert (mode(pool / "dir"), mode(pool / "dir/revoked.json")) == (0o700, 0o600)
    again = revoke(pool, ["a"])
    assert (again["changed"], again["digest"]) == (False, done["digest"])
    back = revoke(pool, [])
    assert (back["denied_identities"], back["digest"] != done["digest"]) == ([], True)


def test_revocations_are_refused_without_htcondor_but_in_check_mode(tmp_path, commands):
    check = revoke(tmp_path, ["a"], check=True)
    assert (check["changed"], check["has_condor"]) == (True, False)
    assert "HTCondor is not installed on this host" in revoke(tmp_path, ["a"])["msg"]
    assert not (tmp_path / "dir").exists()


def test_an_invalid_site_is_quoted(pool):
    assert "sites: 'a b' is invalid" in revoke(pool, ["a b"])["msg"]


def test_a_pool_without_glideins_of_revoked_sites_is_unchanged(pool, commands):
    for name in ("condor_status", "condor_q"):
        commands(name, "#!/bin/sh\nexit 0\n")
    revoke(pool, ["a"])
    done = run_module(revoked_glideins.main, {"directory": str(pool / "dir"), "sites": ["a"]})
    assert (done["changed"], done["summary"]) == (
        False,
        ["a is revoked: 0 machines were removed, 0 jobs taken back."],
    )


@pytest.mark.parametrize("recorded", [False, True])
def test_a_check_counts_the_glideins_and_changes_nothing(pool, commands, recorded):
    commands("condor_status", '#!/bin/sh\ncase "$*" in *"!("*) ;; *-schedd*) ;; *) echo slot1@glidein_7@node ;; esac\n')
    revoke(pool, ["a"], check=not recorded)
    done = run_module(revoked_glideins.main, {"directory": str(pool / "dir"), "sites": ["a"]}, check=True)
    assert (done["changed"], done["summary"]) == (
        True,
        ["a is revoked: 1 machines would be removed, 0 jobs would be taken back."],
    )
    states = [json.loads(path.read_text()) for path in pool.glob("dir/revoked.json")]
    assert [state["sites"]["a"]["machines"] for state in states] == ([[]] if recorded else [])


def test_a_pool_that_does_not_answer_is_an_error(pool, commands):
    commands("condor_status", "#!/bin/sh\necho no collector >&2; exit 1\n")
    revoke(pool, ["a"])
    assert "no collector" in run_module(revoked_glideins.main, {"directory": str(pool / "dir"), "sites": ["a"]})["msg"]


# --- tarball


@pytest.fixture
def items(monkeypatch):
    """Return the files of an installed HTCondor: one program."""
    found = {"sbin/condor_master": Item(b"program", 0o755)}
    monkeypatch.setattr(tarball, "installed_items", lambda condor: found)
    about = {"htcondor": "23.9.6", "platform": "X86_64-Debian_13", "arch": "x86_64", "glibc": "2.38"}
    monkeypatch.setattr(tarballs, "manifest_of", lambda items: dict(about))
    return found


def build(pool, check=False, **changes):
    options = {"directory": str(pool / "dir"), "sources": {"native": {"source": "installed"}}}
    return run_module(tarball.main, dict(options, **changes), check, diff=True)


def test_tarballs_are_built_and_published_once(pool, items):
    check = build(pool, check=True, publish_directory=str(pool / "public"))
    assert (check["changed"], check["built"], check["reason"]) == (True, ["native.tar.gz"], "")
    assert not (pool / "dir").exists() and not (pool / "public").exists()
    done = build(pool, publish_directory=str(pool / "public"))
    assert [platform["name"] for platform in done["platforms"]] == ["native"]
    assert (done["built"], done["published"], done["diff"]["after"]) == (
        check["built"],
        check["published"],
        check["diff"]["after"],
    )
    assert mode(pool / "dir") == 0o700
    assert [path.name for path in (pool / "public").iterdir()] == done["published"]
    again = build(pool, publish_directory=str(pool / "public"))
    assert (again["changed"], again["diff"]["after"]) == (False, "")


def test_a_script_of_blahp_that_is_not_repaired_is_a_warning(pool, items, monkeypatch, capfd):
    script = {"libexec/blahp/sge_submit.sh": Item(b"another version", 0o755)}
    monkeypatch.setattr(tarball, "installed_gateway_items", lambda condor: dict(items, **script))
    done = build(pool, kind="gateway")
    # Newer versions of Ansible print it if the process has run code of the controller before.
    warnings = " ".join(f"{done.get('warnings')} {capfd.readouterr().err}".split())
    assert "sources.native: libexec/blahp/sge_submit.sh of this HTCondor is not repaired, because" in warnings
    assert "a job that Grid Engine refuses is held without the error of qsub" in warnings


def test_the_pool_password_is_neither_in_the_result_nor_published(pool, items):
    (pool / "password").write_text("a secret")
    done = build(pool, pool_password_file=str(pool / "password"), publish_directory=str(pool / "public"))
    assert sorted(done["built"]) == ["native-pool-password.tar.gz", "native.tar.gz"]
    *_about, digest, _file = (pool / "dir/tarballs-pool-password.list").read_text().split()
    assert digest[:12] not in json.dumps(done)
    assert "password" not in "".join(path.name for path in (pool / "public").iterdir())


def test_an_upstream_tarball_with_another_sum_is_refused(pool):
    archive = pool / "condor.tar.gz"
    archive.write_bytes(b"x")
    source = {"source": "upstream", "upstream": str(archive), "sha256": "a" * 64}
    result = build(pool, sources={"el8": source})
    assert (
        "condor.tar.gz has the SHA-256 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
        in result["msg"]
    )
    assert "expected " + "a" * 64 in result["msg"]


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Return a function that creates an upstream tarball with one program and further files ({name: bytes})."""
    monkeypatch.setattr(tarball, "upstream_items", lambda root: {"sbin/condor_master": Item(b"program", 0o755)})

    def make(**files):
        packed = tmp_path / "supplied.tar.gz"
        with tarfile.open(packed, "w:gz") as tar:
            for name, data in {"sbin/condor_master": b"program", **files}.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return {"source": "upstream", "upstream": str(packed), "sha256": tarballs.file_sha256(packed)}

    return make


@pytest.mark.parametrize("password", [b"a secret", b"another"])
def test_the_pool_password_of_a_supplied_tarball_is_used_unless_a_file_replaces_it(tmp_path, items, archive, password):
    more = {}
    if password == b"another":
        (tmp_path / "password").write_bytes(password)
        more["pool_password_file"] = str(tmp_path / "password")
    done = build(tmp_path, sources={"supplied": archive(**{"etc/pool_password": b"a secret"})}, **more)
    assert sorted(done["built"]) == ["supplied-pool-password.tar.gz", "supplied.tar.gz"]
    with tarfile.open(tmp_path / "dir/supplied-pool-password.tar.gz") as tar:
        assert tar.extractfile("./etc/pool_password").read() == password
    with tarfile.open(tmp_path / "dir/supplied.tar.gz") as tar:
        assert "./etc/pool_password" not in tar.getnames()


def test_a_supplied_tarball_without_a_password_gives_one_tarball(tmp_path, items, archive):
    assert build(tmp_path, sources={"supplied": archive()})["built"] == ["supplied.tar.gz"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"$ANSIBLE_VAULT;1.1;AES256\n6162\n", "password is encrypted by Ansible Vault: decrypt it"),
        (b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl\n", "password is a token"),
    ],
)
def test_an_invalid_pool_password_file_is_refused(tmp_path, items, archive, content, message):
    (tmp_path / "password").write_bytes(content)
    failed = build(tmp_path, sources={"supplied": archive()}, pool_password_file=str(tmp_path / "password"))
    assert message in failed["msg"]


def test_missing_inputs_are_a_change_in_check_mode_and_an_error_otherwise(tmp_path, commands):
    source = {"source": "upstream", "upstream": "https://example.org/x.tar.gz", "sha256": "a" * 64}
    options = {
        "sources": {"el8": source, "native": {"source": "installed"}},
        "pool_password_file": str(tmp_path / "password"),
    }
    check = build(tmp_path, check=True, **options)
    assert (check["changed"], check["platforms"]) == (True, [])
    failed = build(tmp_path, **options)
    for text in (check["reason"], failed["msg"]):
        assert "HTCondor is not installed on this host" in text
        assert f"sources.el8: {tmp_path}/dir/upstream/{'a' * 64}.tar.gz is missing on this host" in text
        assert f"pool_password_file={tmp_path}/password is missing on this host" in text


# --- condor_config_info, login_node_info


def test_settings_are_read_in_one_run(pool):
    found = run_module(condor_config_info.main, {"names": ["UID_DOMAIN", "NOPE"]})
    assert (found["changed"], found["config"], found["error"]) == (False, {"UID_DOMAIN": "pool", "NOPE": None}, "")


def test_missing_words_of_a_running_daemon_are_named(pool):
    options = {"daemon": "collector", "contains": {"ALLOW_DAEMON": ["b@pool", "c@pool"]}, "timeout": 0}
    assert run_module(condor_config_info.main, options)["missing"] == {"ALLOW_DAEMON": ["c@pool"]}


def test_a_setting_is_read_until_it_has_the_words():
    answers = iter([None, "a", "a b"])

    class Changing:
        def setting(self, name, daemon):
            return next(answers)

    now = [0]

    def pause(seconds):
        now[0] += seconds

    options = {"names": [], "daemon": None, "contains": {"X": ["b"]}, "timeout": 5}
    found = condor_config_info.read_until(options, Changing(), lambda: now[0], pause)
    assert (found["config"], found["missing"], now[0]) == ({"X": "a b"}, {}, 1.0)


def test_a_host_without_htcondor_gives_the_reason(commands):
    found = run_module(condor_config_info.main, {"names": ["UID_DOMAIN"]})
    assert found["config"] == {"UID_DOMAIN": None}
    assert "condor_config_val UID_DOMAIN could not be started" in found["error"]


def test_a_login_node_without_the_python_still_gives_the_path(commands):
    found = run_module(login_node_info.main, {"python": "/opt/none/python3", "path": "~/pull"})
    assert found["path"] == str(Path.home() / "pull")
    assert (found["python"], found["machine"], found["libc"]) == (None, None, None)
    assert "/opt/none/python3 - could not be started: No such file" in found["error"]
    found = run_module(login_node_info.main, {"python": "cat", "path": "~/pull"})
    assert found["error"].startswith("cat is not a Python: it printed")


def test_a_login_node_with_the_python_and_cron(commands):
    commands("crontab", "#!/bin/sh\n")
    found = run_module(login_node_info.main, {"python": sys.executable, "path": "/opt/pull"})
    assert found["python"] == "{}.{}".format(*sys.version_info[:2])
    assert (found["has_cron"], found["error"], found["machine"]) == (True, "", os.uname().machine)
    assert set(found["libc"]) <= set("0123456789.")
