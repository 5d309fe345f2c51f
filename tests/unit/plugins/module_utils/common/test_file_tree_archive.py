# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import io
import os
import stat
import tarfile
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.file_tree import (
    Tree,
    collect,
    manifest_of,
    replace_link,
    version_of,
    write_archive,
)


@pytest.fixture
def folder(tmp_path):
    """Create files of the controller: a, lib/b, and files that must not be sent."""
    top = tmp_path / "controller"
    for name, text in {"a": "A\n", "lib/b": "B\n", "lib/.hidden": "", "lib/__pycache__/b.pyc": ""}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def source(src=None, **more):
    return dict({"src": src and str(src), "exclude": [".*", "__pycache__", "*.pyc"]}, **more)


def archive(files, names=None):
    handle = io.BytesIO()
    write_archive(files if names is None else {name: files[name] for name in names}, handle)
    handle.seek(0)
    return handle


def tree(path, files):
    return Tree(str(path), manifest_of(files), "0700")


def names(path):
    return sorted(each.name for each in path.iterdir())


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_is_collected_without_hidden_and_compiled_files(folder):
    assert sorted(collect([source(folder, dest="x")], "0600")) == ["x/a", "x/lib/b"]
    assert sorted(collect([source(folder, recurse=False)], "0600")) == ["a"]


def test_links_to_directories_are_followed_and_those_that_lead_back_are_refused(folder, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "c").write_text("C\n")
    (folder / "linked").symlink_to("../shared")
    (folder / "lib" / "again").symlink_to("../linked")
    found = collect([source(folder)], "0600")
    assert sorted(found) == ["a", "lib/again/c", "lib/b", "linked/c"]
    assert archive(found).getvalue().count(b"C\n") == 2
    (tmp_path / "shared" / "loop").symlink_to(folder / "lib")
    with pytest.raises(InputError, match="lib/again/loop on the controller leads back to .*/lib, which contains it"):
        collect([source(folder)], "0600")


def test_a_later_source_takes_the_place_of_an_earlier_one(folder):
    files = collect([source(folder), source(content="own\n", dest="lib/b", mode="0700")], "0600")
    assert files["lib/b"]["content"] == b"own\n"
    assert files["lib/b"]["mode"] == "0700"


def test_a_file_with_a_known_checksum_is_not_read(folder):
    assert collect([source(folder, checksums={"absent": "ab" * 32})], "0600")["absent"]["sha256"] == "ab" * 32


@pytest.mark.parametrize("name", ["", ".", "/etc/passwd", "../x", "a/../../x"])
def test_a_destination_outside_of_the_directory_is_refused(name):
    with pytest.raises(InputError, match="dest"):
        collect([source(content="x", dest=name)], "0600")


def test_a_source_has_either_a_file_or_content(folder):
    with pytest.raises(InputError, match="either src or content"):
        collect([source(folder, content="x", dest="a")], "0600")


def test_a_mode_that_is_not_octal_is_refused():
    with pytest.raises(InputError, match="mode: '600'"):
        collect([source(content="x", dest="a")], "600")


def test_equal_files_make_equal_archives_and_versions(folder):
    before = collect([source(folder)], "0600")
    os.utime(str(folder / "a"), (1, 1))
    (folder / "a").chmod(0o744)
    after = collect([source(folder)], "0600")
    assert archive(before).getvalue() == archive(after).getvalue()
    assert version_of(manifest_of(before), "k") == version_of(manifest_of(after), "k")


def test_a_file_that_its_owner_may_execute_stays_executable_for_those_who_may_read_it(folder):
    (folder / "a").chmod(0o700)
    files = collect([source(folder, mode="keep_executable")], "0640")
    assert {name: item["mode"] for name, item in files.items()} == {"a": "0750", "lib/b": "0640"}


def test_content_mode_name_and_key_make_another_version(folder):
    manifest = manifest_of(collect([source(folder)], "0600"))
    others = [
        manifest_of(collect([source(folder)], "0700")),
        manifest_of(collect([source(folder, dest="x")], "0600")),
        manifest_of(collect([source(folder), source(content="C", dest="a")], "0600")),
    ]
    versions = {version_of(each, "k") for each in [manifest, *others]} | {version_of(manifest, "other")}
    assert len(versions) == 5


def test_a_new_tree_appears_whole(folder, tmp_path):
    files = collect([source(folder, mode="0640")], "0600")
    target = tree(tmp_path / "site" / "v", files)
    assert target.missing() == ["a", "lib/b"]
    target.install(archive(files))
    assert (tmp_path / "site" / "v" / "lib" / "b").read_text() == "B\n"
    assert [mode(tmp_path / "site" / "v" / name) for name in ("", "lib", "a")] == [0o700, 0o700, 0o640]
    assert names(tmp_path / "site") == ["v"]
    again = tree(tmp_path / "site" / "v", files)
    assert not again.changed_files() and not again.changed_directories()


def test_a_tree_that_cannot_be_completed_does_not_appear(folder, tmp_path):
    files = collect([source(folder)], "0600")
    with pytest.raises(GlideinError, match="lacks lib/b"):
        tree(tmp_path / "v", files).install(archive(files, ["a"]))
    assert not (tmp_path / "v").exists()
    assert [name for name in names(tmp_path) if name.startswith(".incoming")] == []


def test_damaged_missing_and_replaced_files_are_repaired_and_others_stay(folder, tmp_path):
    files = collect([source(folder)], "0600")
    tree(tmp_path / "v", files).install(archive(files))
    (tmp_path / "v" / "a").write_text("damaged")
    (tmp_path / "v" / "lib" / "b").unlink()
    (tmp_path / "v" / "lib" / "b").symlink_to("/etc/hostname")
    (tmp_path / "v" / "more").write_text("stays")
    damaged = tree(tmp_path / "v", files)
    assert damaged.missing() == ["a", "lib/b"]
    damaged.install(archive(files, damaged.missing()))
    assert (tmp_path / "v" / "a").read_text() == "A\n"
    assert not (tmp_path / "v" / "lib" / "b").is_symlink()
    assert (tmp_path / "v" / "more").read_text() == "stays"


def test_a_mode_is_corrected_without_an_archive(folder, tmp_path):
    files = collect([source(folder)], "0600")
    tree(tmp_path / "v", files).install(archive(files))
    (tmp_path / "v" / "a").chmod(0o644)
    opened = tree(tmp_path / "v", files)
    assert opened.changed_files() == ["a"] and opened.missing() == []
    opened.install(io.BytesIO())
    assert mode(tmp_path / "v" / "a") == 0o600


def test_a_file_that_changed_on_its_way_is_refused(folder, tmp_path):
    files = collect([source(folder)], "0600")
    target = tree(tmp_path / "v", files)
    (folder / "a").write_text("other\n")
    with pytest.raises(GlideinError, match="a changed while it was sent"):
        target.install(archive(files))
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("name", ["../evil", "/evil", "unknown"])
def test_an_archive_with_an_unexpected_member_is_refused(folder, tmp_path, name):
    handle = io.BytesIO()
    with tarfile.open(fileobj=handle, mode="w") as evil:
        evil.addfile(tarfile.TarInfo(name))
    handle.seek(0)
    with pytest.raises(GlideinError, match="unexpected member"):
        tree(tmp_path / "v", collect([source(folder)], "0600")).install(handle)


def test_the_diff_names_the_files_that_differ(folder, tmp_path):
    files = collect([source(folder)], "0600")
    tree(tmp_path / "v", files).install(archive(files))
    (tmp_path / "v" / "a").write_text("damaged")
    diff = tree(tmp_path / "v", files).diff()
    assert [line.split()[-1] for line in diff["before"].splitlines()] == ["a"]
    assert diff["before"] != diff["after"]


def test_files_of_interrupted_runs_are_removed_later(folder, tmp_path, monkeypatch):
    old, fresh = tmp_path / ".incoming-old", tmp_path / ".incoming-fresh"
    old.mkdir()
    fresh.mkdir()
    os.utime(str(old), (time.time() - 7200, time.time() - 7200))
    # The run for another site of the account removes its own meanwhile.
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*listdir(path), ".incoming-removed"])
    files = collect([source(folder)], "0600")
    tree(tmp_path / "v", files).install(archive(files))
    assert not old.exists() and fresh.exists()


def test_a_link_is_replaced_in_one_step(tmp_path):
    (tmp_path / "current").symlink_to("old")
    replace_link(str(tmp_path / "current"), "new")
    assert os.readlink(str(tmp_path / "current")) == "new"
    assert names(tmp_path) == ["current"]
