# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's files in the payload."""

import pytest
from ansible_collections.glidein.ops.plugins.filter.payload_sources import payload_sources
from ansible_collections.glidein.ops.plugins.module_utils.file_tree import collect, manifest_of, version_of


def made(path, text="x", mode=0o644):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def manifest(found):
    return manifest_of(collect(found["sources"], "0600"))


def test_files_keep_their_modes_below_files(tmp_path):
    (tmp_path / "tools" / ".hidden").mkdir(parents=True)
    made(tmp_path / "tools" / "run", mode=0o755)
    made(tmp_path / "tools" / ".hidden" / "a", mode=0o400)
    found = payload_sources(
        [made(tmp_path / "data"), "tools"], made(tmp_path / "w", "#!/bin/sh\n", 0o755), str(tmp_path)
    )
    assert found["error"] == ""
    assert {name: item["mode"] for name, item in manifest(found).items()} == {
        "files/data": "0644",
        "files/tools/.hidden/a": "0400",
        "files/tools/run": "0755",
        "job_wrapper": "0700",
    }


def test_another_content_or_mode_makes_another_version(tmp_path):
    path = tmp_path / "data"
    versions = set()
    for text, mode in (("a", 0o644), ("b", 0o644), ("b", 0o600)):
        versions.add(version_of(manifest(payload_sources([made(path, text, mode)], "", "")), ""))
    assert len(versions) == 3


def test_nothing_is_no_source(tmp_path):
    assert payload_sources([], "", str(tmp_path)) == {"error": "", "sources": []}


@pytest.mark.parametrize(
    ("files", "wrapper", "error"),
    [
        ("data", "", "glidein_payload_files: 'data' is invalid; expected a list of paths"),
        ([3], "", "glidein_payload_files[0]: 3 is invalid; expected a path"),
        (["none"], "", "glidein_payload_files[0]: {0}/none does not exist on the controller"),
        (["a b"], "", "glidein_payload_files[0]: 'a b' is invalid; expected a file name of letters"),
        (["data", "other/data"], "", "glidein_payload_files[1]: {0}/other/data has the same name as {0}/data; rename"),
        ([], "none", "glidein_job_wrapper: {0}/none is not a file of the controller"),
        ([], "other", "glidein_job_wrapper: {0}/other is not a file of the controller"),
        ([], "data", "glidein_job_wrapper: {0}/data is not executable: chmod +x {0}/data"),
        ([], "text", "glidein_job_wrapper: {0}/text is not a program: a script begins with a line such as #!/bin/sh"),
    ],
)
def test_problems_are_named(tmp_path, files, wrapper, error):
    (tmp_path / "other").mkdir()
    for name, mode in (("data", 0o644), ("a b", 0o644), ("other/data", 0o644), ("text", 0o755)):
        made(tmp_path / name, mode=mode)
    assert error.format(tmp_path) in payload_sources(files, wrapper, str(tmp_path))["error"]


def test_relative_paths_need_a_directory():
    assert "expected an absolute path" in payload_sources(["data"], "", "")["error"]


def test_a_home_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made(tmp_path / "data")
    assert payload_sources(["~/data"], "", "")["sources"][0]["src"] == f"{tmp_path}/data"
