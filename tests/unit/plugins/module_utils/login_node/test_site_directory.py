# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import BusyError, InputError, NotDeployedError
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_directory import (
    SiteDirectory,
    read_text,
    version_usage,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import job


def test_the_deployed_version_is_found(site_home):
    directory = SiteDirectory(str(site_home), "lab")
    assert directory.deployed(token=True) == str(site_home / "lab" / "aaaaaaaaaaaa")


@pytest.mark.parametrize("missing", ["current", "credential", "aaaaaaaaaaaa/glidein.sh"])
def test_missing_parts_are_named_with_the_remedy(site_home, missing):
    (site_home / "lab" / missing).unlink()
    with pytest.raises(NotDeployedError, match=missing + r".*glidein.ops.deploy for this host first"):
        SiteDirectory(str(site_home), "lab").deployed(token=True)


def test_a_pool_password_needs_no_credential_file(site_home):
    (site_home / "lab" / "credential").unlink()
    assert SiteDirectory(str(site_home), "lab").deployed(token=False)


@pytest.mark.parametrize("target", ["../../etc", "bbbbbbbbbbbb", "log"])
def test_current_must_point_to_a_version_that_is_there(site_home, target):
    (site_home / "lab" / "current").unlink()
    (site_home / "lab" / "current").symlink_to(target)
    assert SiteDirectory(str(site_home), "lab").current() is None


def test_a_site_that_was_never_deployed_has_no_versions(tmp_path):
    directory = SiteDirectory(str(tmp_path / "none"), "lab")
    assert (directory.versions(), directory.current(), directory.records()) == ([], None, {})


def test_the_builds_of_htcondor_are_those_of_the_list_of_tarballs(site_home):
    directory = SiteDirectory(str(site_home), "lab")
    assert directory.htcondor_builds() == []
    lines = ["from https://cm.example.org/tarballs"]
    lines += [f"{name} x86_64 2.34 23.9.6 x86_64_AlmaLinux9 {'0' * 64} {name}.tar.gz" for name in ("el9", "own")]
    (site_home / "lab" / "current" / "tarballs.list").write_text("\n".join(lines) + "\n")
    assert directory.htcondor_builds() == [("23.9.6", "x86_64_AlmaLinux9")]


def test_only_versions_that_a_glidein_may_need_are_in_use():
    records = {
        "a" * 12: [],
        "b" * 12: [{"event": "submitted", "id": "x", "job_id": "5"}],
        "c" * 12: [{"event": "submitted", "id": "y", "job_id": "6"}],
    }
    assert version_usage(records, "a" * 12, [job("5_1", "n")]) == {
        "a" * 12: {"in_use": True, "current": True},
        "b" * 12: {"in_use": True, "current": False},
        "c" * 12: {"in_use": False, "current": False},
    }


def test_two_runs_do_not_work_on_one_site_at_a_time(site_home):
    directory = SiteDirectory(str(site_home), "lab")
    with directory.lock(), pytest.raises(BusyError, match="Another run"), directory.lock():
        pass
    with directory.lock():
        pass


@pytest.mark.parametrize("home", ["/a\nb", "/a\\b", "/a$b", "/a'b", '/a"b'])
def test_a_home_that_glideins_could_not_use_is_refused(home):
    with pytest.raises(InputError, match="home: "):
        SiteDirectory(home, "lab")


def test_the_text_of_a_missing_file_is_empty(tmp_path):
    assert read_text(str(tmp_path / "a.sh")) == ""


def test_a_site_directory_of_another_deployment_is_refused(site_home):
    directory = SiteDirectory(str(site_home), "lab")
    directory.check_owner("glidein")  # not a site's directory yet
    (site_home / "lab" / "deployment").write_text("glidein\n")
    directory.check_owner("glidein")
    with pytest.raises(
        InputError,
        match="belongs to the deployment 'glidein', this is 'other'.*Another glidein_home alone is not enough",
    ):
        directory.check_owner("other")
