# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a node's CVMFS and containers, and of a glidein that runs entirely inside an image.

A strict stand-in accepts only the arguments that the glidein passes, as Apptainer's manual describes them; it changes
no file system. tests/e2e/glideins/test_payload.py runs a job in a container by Apptainer itself.
"""

import signal

import pytest
from conftest import run_lib
from test_endings import assert_ended

# apptainer exec --pwd / [--bind PATH]... [--nv|--rocm] IMAGE COMMAND...
APPTAINER = """\
#!/bin/sh
log={log}
[ "$1" = --version ] && {{ echo "apptainer version 1.3.4"; exit 0; }}
[ "$1 $2 $3" = "exec --pwd /" ] || {{ echo "FATAL: unexpected: $*" >&2; exit 255; }}
shift 3
while :; do
  case $1 in
  --bind)
    [ -e "$2" ] || {{ echo "FATAL: mount source $2 does not exist" >&2; exit 255; }}
    echo "bind $2" >>"$log"
    shift 2
    ;;
  --nv | --rocm) echo "$1" >>"$log"; shift ;;
  -*) echo "FATAL: unknown flag: $1" >&2; exit 1 ;;
  *) break ;;
  esac
done
echo "cache ${{APPTAINER_CACHEDIR-}}" >>"$log"
case $1 in
docker://*)
  # It downloads the image.
  [ ! -e "$log.busy" ] || {{ rm "$log.busy"; echo "FATAL: 503 Service Unavailable" >&2; exit 255; }}
  mkdir -p "$APPTAINER_CACHEDIR/cache"
  ;;
/images/el9.sif) ;;
*) echo "FATAL: could not open image $1: no such file or directory" >&2; exit 255 ;;
esac
shift
cd /
[ -z "${{APPTAINER_CLEANENV-}}${{APPTAINER_COMPAT-}}" ] && [ ! -e "$log.clean" ] || exec env -i PATH="$PATH" "$@"
INSIDE=yes
export INSIDE
exec "$@"
"""


def lib(shell, script, *arguments):
    text = 'for part in run limits machine node configure; do . "$0/$part.sh"; done; ' + script
    done = run_lib(shell, text, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture()
def root(tmp_path):
    """Create a node with a repository, an empty one (its server does not respond), and a plain directory."""
    for name in ("icecube.opensciencegrid.org", "atlas-nightlies.cern.ch"):
        (tmp_path / "cvmfs" / name).mkdir(parents=True)
        (tmp_path / "cvmfs" / name / "new_repository").write_text("")
    (tmp_path / "cvmfs" / "broken.example.org").mkdir()
    (tmp_path / "cvmfs" / "nodots").mkdir()
    return tmp_path


def test_repositories_that_can_be_listed(shell, root):
    found = lib(shell, 'cvmfs_repositories "$@"', root, "oasis.opensciencegrid.org", "icecube.opensciencegrid.org")
    assert sorted(found.splitlines()) == ["atlas-nightlies.cern.ch", "icecube.opensciencegrid.org"]


def test_a_node_without_cvmfs(shell, tmp_path):
    assert lib(shell, 'cvmfs_repositories "$@"', tmp_path, "oasis.opensciencegrid.org") == ""


def test_attributes_of_repositories(shell):
    found = lib(shell, 'cvmfs_attributes "$1"', "atlas-nightlies.cern.ch\nicecube.opensciencegrid.org")
    assert found.splitlines() == [
        "HAS_CVMFS_atlas_nightlies_cern_ch = True",
        "HAS_CVMFS_icecube_opensciencegrid_org = True",
        "ICECUBE_CVMFS_Exists = True",
    ]


def put_apptainer(site, name="apptainer"):
    """Return a directory for PATH with the stand-in, and the file of its arguments."""
    directory, log = site.root / "tools", site.root / "apptainer.log"
    directory.mkdir()
    log.write_text("")
    (directory / name).write_text(APPTAINER.format(log=log))
    (directory / name).chmod(0o755)
    return directory, log


def test_apptainer_is_configured(site, shell):
    directory, _log = put_apptainer(site)
    site.bring("good", {"libexec/singularity_test_sandbox/exit_37": (b"\x7fELF", 0o755)})
    glidein = site.start(shell, PATH="{}:/usr/bin:/bin".format(directory)).wait_for("registered")
    scratch = glidein.directory()
    assert "SINGULARITY = {}/apptainer".format(directory) in (scratch / "condor_config").read_text().splitlines()
    sandbox = scratch / "condor" / "libexec" / "singularity_test_sandbox"
    assert {path.name for path in sandbox.iterdir()} >= {"dev", "proc", "exit_37"}
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


# As the real one, it needs the libraries of the tarball.
PLUGIN = b"""#!/bin/sh
case $LD_LIBRARY_PATH in */condor/lib:*) ;; *) exit 127 ;; esac
[ "$*" = -classad ] && echo 'SupportedMethods = "http,https"'
"""
OPERATORS = "FILETRANSFER_PLUGINS = /cvmfs/example.org/pelican_plugin"


@pytest.mark.parametrize(
    ("plugin", "setting", "by", "expected"),
    [
        (PLUGIN, "", "curl_plugin", "FILETRANSFER_PLUGINS = $(LIBEXEC)/curl_plugin"),
        (
            b"#!/bin/sh\necho 'libcurl.so.4: cannot open shared object file' >&2\nexit 127\n",
            "",
            "none",
            "ENABLE_URL_TRANSFERS = False",
        ),
        (None, "", "none", "ENABLE_URL_TRANSFERS = False"),
        (PLUGIN, OPERATORS, "condor_config", OPERATORS),
        (PLUGIN, "Enable_URL_Transfers = False", "condor_config", "Enable_URL_Transfers = False"),
    ],
    ids=["works", "lacks a library", "missing", "the operator's", "disabled by the operator"],
)
def test_urls_are_transferred_if_the_plugin_works(site, shell, plugin, setting, by, expected):
    site.bring("good", {"libexec/curl_plugin": (plugin, 0o755)} if plugin else None)
    glidein = site.start(shell, GLIDEIN_CONDOR_CONFIG=setting).wait_for("registered")
    config = (glidein.directory() / "condor_config").read_text()
    names = ("FILETRANSFER_PLUGINS", "ENABLE_URL_TRANSFERS")
    assert [line for line in config.splitlines() if line.upper().startswith(names)] == [expected]
    assert f'GLIDEIN_UrlTransfers = "{by}"' in config.splitlines()
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_attributes_of_the_node_and_of_pyglidein(site, shell):
    glidein = site.start(shell, GLIDEIN_SITE_RESOURCE="annex").wait_for("registered")
    config = (glidein.directory() / "condor_config").read_text()
    lines = config.splitlines()
    assert "SINGULARITY = " in lines or "SINGULARITY =" in lines
    assert 'GLIDEIN_SiteResource = "annex"' in lines
    assert "GLIDEIN_Max_Walltime = 3600" in lines
    # The demand server counts core-hours by them.
    names = "ProjectName x509UserProxyVOName AuthTokenIssuer"
    assert f"SYSTEM_STARTD_JOB_ATTRS = $(SYSTEM_STARTD_JOB_ATTRS) {names}" in lines
    (attributes,) = [line for line in config.replace("\\\n", "").splitlines() if line.startswith("STARTD_ATTRS")]
    assert {"GLIDEIN_UrlTransfers", "GLIDEIN_SiteResource", "GLIDEIN_Max_Walltime", "PYGLIDEIN_TIME_TO_LIVE"} <= set(
        attributes.split()
    )
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def found_attributes(shell, offered, own):
    """Return config_attributes for attributes of the node and of the entry."""
    names = ("DEPLOYMENT", "SITE", "ENTRY", "SHAPE", "BATCH_ID", "SITE_RESOURCE")
    environment = {"GLIDEIN_" + name: "x" for name in names}
    environment.update(
        PATH="/usr/bin:/bin", NAME="n", TO_RETIRE="1", TO_DIE="2", GLIDEIN_WALLTIME_S="3", NODE_ATTRIBUTES=offered,
        GLIDEIN_ATTRIBUTES=own,
    )  # fmt: skip
    script = '. "$0/settings.sh"; . "$0/configure.sh"; config_attributes'
    return run_lib(shell, script, env=environment).stdout


def test_attributes_of_the_entry_override_those_of_the_node(shell):
    config = found_attributes(shell, "HAS_CVMFS_a_org = True\nHAS_CVMFS_b_org = True", "has_cvmfs_a_org = false")
    assert "HAS_CVMFS_a_org" not in config
    assert config.count("HAS_CVMFS_b_org = True\n") == 1
    (attributes,) = [line for line in config.replace("\\\n", "").splitlines() if line.startswith("STARTD_ATTRS")]
    assert {"has_cvmfs_a_org", "HAS_CVMFS_b_org"} <= set(attributes.split())


# --- a glidein inside an image


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_inside_an_image(site, shell, name):
    directory, log = put_apptainer(site, name)
    settings = {"PATH": "{}:/usr/bin:/bin".format(directory), "GLIDEIN_IMAGE": "/images/el9.sif"}
    glidein = site.start(shell, **settings).wait_for("registered")
    assert "INSIDE=yes" in (glidein.directory() / "log" / "EnvironmentLog").read_text()
    bound = {line.split(" ", 1)[1] for line in log.read_text().splitlines() if line.startswith("bind ")}
    assert {str(path) for path in (site.home, site.scratch, site.logs, site.credential.parent)} <= bound
    # The batch system's process is the one inside the image.
    status, output = glidein.signal(signal.SIGTERM).end()
    assert_ended(site, status, output, 143, "signal TERM")
    assert output.count("start of site-1/short/small") == 1
    assert "starting again in the image /images/el9.sif" in output


def test_an_image_from_a_registry_is_kept_in_the_scratch_directory(site, shell):
    directory, log = put_apptainer(site)
    log.with_name(log.name + ".busy").write_text("")
    settings = {"PATH": f"{directory}:/usr/bin:/bin", "GLIDEIN_IMAGE": "docker://example.org/el9:1", "HOME": "/nowhere"}
    glidein = site.start(shell, **settings).wait_for("registered")
    assert (glidein.directory() / "image" / "cache").is_dir()
    (cache,) = {line for line in log.read_text().splitlines() if line.startswith("cache ")}
    assert cache.startswith(f"cache {site.scratch}/glidein-image.")
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_an_image_that_cannot_be_entered_leaves_no_cache(site, any_shell):
    directory, log = put_apptainer(site)
    log.with_name(log.name + ".clean").write_text("")
    settings = {"PATH": f"{directory}:/usr/bin:/bin", "GLIDEIN_IMAGE": "docker://example.org/el9:1"}
    status, output = site.run(any_shell, **settings)
    assert_ended(site, status, output, 21, "the container does not receive the environment: check whether")


def test_the_image_cache_of_the_environment_is_not_removed(site, any_shell):
    kept = site.root / "glidein-image.12345678"
    kept.mkdir()
    site.credential.unlink()
    assert_ended(site, *site.run(any_shell, GLIDEIN_IMAGE_CACHE=kept), 16, "is missing or empty")
    assert kept.is_dir()


def test_a_site_that_cleans_the_environment_does_not_remove_the_settings(site, shell):
    directory, _log = put_apptainer(site)
    settings = {"PATH": f"{directory}:/usr/bin:/bin", "GLIDEIN_IMAGE": "/images/el9.sif", "APPTAINER_CLEANENV": "1"}
    settings["APPTAINER_COMPAT"] = "1"
    glidein = site.start(shell, **settings).wait_for("registered")
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_an_image_without_apptainer(site, shell):
    status, output = site.run(shell, GLIDEIN_IMAGE="/images/el9.sif")
    assert_ended(site, status, output, 21, "needs apptainer or singularity, and neither is in PATH=/usr/bin:/bin")


def test_a_missing_image(site, any_shell):
    directory, _log = put_apptainer(site)
    settings = {"PATH": "{}:/usr/bin:/bin".format(directory), "GLIDEIN_IMAGE": "/images/other.sif"}
    status, output = site.run(any_shell, **settings)
    assert_ended(site, status, output, 21, "apptainer ended with status 255; its output is above")
    assert "FATAL: could not open image /images/other.sif" in output


@pytest.mark.parametrize(
    ("scratch", "target"),
    [
        ("/tmp/x/glidein.1", True),  # noqa: S108
        ("/var/tmp/glidein.1", True),  # noqa: S108
        ("/scratch/tmp/glidein.1", False),
        ("/tmpx/glidein.1", False),  # noqa: S108
    ],
)
def test_the_directory_of_a_job_has_another_path_in_a_container_if_it_is_in_tmp(shell, scratch, target):
    script = "SCRATCH=$1; CONTAINER_PROGRAM=/usr/bin/apptainer; config_containers"
    assert ("SINGULARITY_TARGET_DIR = /srv" in lib(shell, script, scratch)) is target
