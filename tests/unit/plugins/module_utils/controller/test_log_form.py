# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the signed form for uploads of glideins' logs to an S3 bucket."""

import base64
import datetime
import json
import sys

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller import log_form
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry

OPTIONS = {"bucket": "logs", "endpoint": "https://s3.example.org:9000", "access_key": "lab", "secret_key": "lab-key"}


def entries(*walltimes):
    return {f"e{number}": raw_entry(walltime=walltime) for number, walltime in enumerate(walltimes)}


def form_of(**changes):
    pytest.importorskip("botocore", reason="botocore is not installed: pip install botocore")
    text = log_form.signed_form(log_form.checked_options(dict(OPTIONS, **changes)), "site-1", 3600)
    assert text.endswith("\n")
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_the_form_allows_objects_of_limited_size_below_the_sites_prefix():
    form = form_of()
    assert form["url"] == "https://s3.example.org:9000/logs"
    assert form["key"] == "glidein-logs/site-1/"
    policy = json.loads(base64.b64decode(form["policy"]))
    assert ["starts-with", "$key", "glidein-logs/site-1/"] in policy["conditions"]
    assert ["content-length-range", 1, log_form.LARGEST_BYTES] in policy["conditions"]
    assert {"bucket": "logs"} in policy["conditions"]
    ends = datetime.datetime.strptime(policy["expiration"], "%Y-%m-%dT%H:%M:%SZ")
    left = ends - datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    assert 3500 < left.total_seconds() <= 3600
    assert "lab-key" not in str(form)


def test_options_of_the_bucket():
    form = form_of(prefix="a/b/", region="eu-west-1")
    assert form["key"] == "a/b/site-1/"
    assert "/eu-west-1/s3/" in form["x-amz-credential"]
    assert form_of(endpoint=None, bucket="my-logs")["url"] == "https://my-logs.s3.amazonaws.com/"


def test_a_key_from_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    assert form_of(access_key=None, secret_key=None)["x-amz-credential"].startswith("from-env/")
    # The form would not outlast a session.
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    with pytest.raises(InputError, match="credentials of AWS are temporary.*Set access_key and secret_key"):
        form_of(access_key=None, secret_key=None)


def test_without_a_key_botocores_reason_is_given(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(InputError, match="botocore cannot sign the form: Unable to locate credentials"):
        form_of(access_key=None, secret_key=None)


def test_without_botocore_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(InputError, match="needs the Python library botocore on the controller.*pip install botocore"):
        log_form.signed_form(log_form.checked_options(OPTIONS), "site-1", 3600)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (None, "glidein_log_s3: invalid (not shown: it may have a secret); expected a mapping"),
        ({"bucket": None}, "glidein_log_s3.bucket: missing"),
        ({"bucket": "A_B"}, "glidein_log_s3.bucket: 'A_B' is invalid"),
        ({"endpoint": "s3.example.org"}, "glidein_log_s3.endpoint: 's3.example.org' is invalid"),
        ({"endpoint": "https://s3.example.org/logs"}, "glidein_log_s3.endpoint"),
        ({"prefix": "/x"}, "glidein_log_s3.prefix"),
        ({"bukket": "logs"}, "glidein_log_s3.bukket: unknown key (did you mean 'bucket'?)"),
        ({"secret_key": None}, "access_key and secret_key are needed together"),
        ({"secret_key": "not shown"}, "glidein_log_s3.secret_key: invalid"),
    ],
)
def test_invalid_options_are_named_without_the_secret(changes, message):
    with pytest.raises(InputError) as caught:
        log_form.checked_options("logs" if changes is None else {**OPTIONS, **changes})
    assert message in str(caught.value)
    assert "lab-key" not in str(caught.value) and "not shown)" not in str(caught.value)


def test_the_form_lasts_for_the_wait_in_the_queue_and_the_walltime():
    assert log_form.lifetime_s(entries("1h", "48h"), 5 * 86400) == 7 * 86400


def test_a_form_that_s3_would_not_accept_is_refused():
    with pytest.raises(
        InputError, match=r"for 604860 s, glidein_queue_wait \(432000 s\) and the longest walltime .*7 days"
    ):
        log_form.lifetime_s(entries(48 * 3600 + 60), 5 * 86400)
