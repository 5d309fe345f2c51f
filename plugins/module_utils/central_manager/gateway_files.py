# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an HTCondor that a gateway needs: an unprivileged schedd on a login node, and blahp.

The programs find their libraries relative to themselves. A gateway therefore needs no LD_LIBRARY_PATH, which the batch
system could pass on to the pilots.
"""

import collections
from pathlib import Path

from ansible_collections.glidein.ops.plugins.module_utils.central_manager.elf import read_elf, with_library_path
from ansible_collections.glidein.ops.plugins.module_utils.central_manager.htcondor_files import (
    Item,
    installed_items,
    upstream_items,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError

# Destination in the tarball: whether it is required. condor_token_create makes the tokens of the submitters.
PROGRAMS = {
    "sbin/condor_master": True,
    "sbin/condor_schedd": True,
    "sbin/condor_gridmanager": True,
    "libexec/condor_shared_port": True,
    "bin/blahpd": True,
    "bin/condor_token_create": True,
    "bin/condor_q": True,
    "bin/condor_rm": True,
    # Transfers files if the access point submits by SSH, without a schedd on the login node.
    "sbin/condor_ft-gahp": True,
    "libexec/condor_job_router": True,
    "bin/condor_job_router_info": True,
}
BLAHP = "libexec/blahp"
BLAH_CONFIG = "etc/blah.config"

# Of the batch job, not of the gateway: sbatch passes its environment on unless told otherwise. NONE, instead of NIL,
# would make Slurm run a login shell of the user.
_NIL = b'\necho "#SBATCH --export=NIL"\n'

# A change of a script of blahp. old, new: bytes that are replaced; effect: what happens without it.
Repair = collections.namedtuple("Repair", ["old", "new", "effect"])
REPAIRS = {
    # Python 3.12 has no readfp.
    "blah.py": Repair(
        b"self.readfp(", b"self.read_file(", "with Python 3.12, every query of a job's state in Slurm, PBS or LSF fails"
    ),
    # Grid Engine, PBS and LSF start a job in the home directory. The current directory of the submission is the job's
    # directory in the spool, which the gateway removes in every case.
    "blah_common_submit_functions.sh": Repair(
        b"new_home=\\${old_home}/$run_dir",
        b"new_home=$bls_opt_workdir/$run_dir",
        "a killed job of Grid Engine, PBS or LSF leaves its files in the home directory",
    ),
    # bsub, too, passes its environment on, and has no such option in all versions. It needs only the variables of LSF.
    "lsf_submit.sh": Repair(
        b"bsub_out=`cd && ",
        b"bsub_out=`for name in $(compgen -e); do case $name in HOME|USER|LOGNAME|LANG|PATH|LSF_*|EGO_*|XLSF_*) ;; "
        b"*) unset $name ;; esac; done; cd && ",
        "LSF passes the gateway's environment on to its jobs",
    ),
    "sge_submit.sh": Repair(
        b"`qsub $bls_tmp_file 2> /dev/null |",
        b"`qsub $bls_tmp_file |",
        "a job that Grid Engine refuses is held without the error of qsub",
    ),
}


def installed_gateway_items(condor):
    """Return {destination: Item} of the HTCondor that is installed on this host. Raises GlideinError.

    condor: Condor.
    """
    libexec = Path(condor.required_setting("LIBEXEC"))
    found = blahp_items([libexec / "blahp", libexec.parent / "blahp"], [Path("/etc")])
    return relocatable(dict(installed_items(condor, PROGRAMS), **found))


def upstream_gateway_items(root):
    """Return {destination: Item} of an unpacked upstream tarball (Path). Other libraries must be on the login node."""
    found = blahp_items([root / "libexec" / "blahp", root / "usr/libexec/blahp"], [root / "etc", root.parent / "etc"])
    return relocatable(dict(upstream_items(root, PROGRAMS), **found))


def blahp_items(scripts, settings):
    """Return {destination: Item} of blahp's scripts and settings, repaired. Raises GlideinError.

    scripts: possible directories (Paths) of the scripts; settings: of blah.config, and of blahp/ with the scripts that
    an administrator may change, to which the other directory has links.
    """
    directory = next((path for path in scripts if path.is_dir()), None)
    config = next((path / "blah.config" for path in settings if (path / "blah.config").is_file()), None)
    if directory is None or config is None:
        places = ", ".join(map(str, scripts if directory is None else settings))
        what = "scripts" if directory is None else "blah.config"
        raise GlideinError(f"{what} of blahp not found in {places}: is the package blahp installed?")
    items = {BLAH_CONFIG: Item(config.read_bytes(), 0o644)}
    for path in sorted(directory.iterdir()):
        real = path
        if path.is_symlink() and not path.is_file():
            # An absolute link of an unpacked tarball points to this host's /etc.
            real = next((place / "blahp" / path.name for place in settings), path)
        if real.is_file():
            items[f"{BLAHP}/{path.name}"] = Item(_repaired(path.name, real.read_bytes()), 0o755)
    return items


def unrepaired(items):
    """Return one text for each script of blahp in `items` in which the text that a repair replaces was not found."""
    found = []
    for name, repair in REPAIRS.items():
        item = items.get(f"{BLAHP}/{name}")
        if item and repair.new not in item.source:
            text = repair.old.decode()
            found.append(f"{BLAHP}/{name} of this HTCondor is not repaired, because it lacks {text!r}: {repair.effect}")
    return found


def _repaired(name, data):
    """Return the content (bytes) of a script of blahp, with the changes that a gateway needs."""
    if name == "slurm_local_submit_attributes.sh":
        return data + _NIL
    repair = REPAIRS.get(name)
    return data.replace(repair.old, repair.new) if repair else data


def relocatable(items):
    """Return `items` with programs and libraries that find their libraries in lib/, wherever they are unpacked."""
    changed = dict(items)
    for name, item in items.items():
        data = item.source if isinstance(item.source, bytes) else item.source.read_bytes()
        elf = read_elf(data)
        # The programs' path also applies to libraries without a path of their own.
        if elf and elf.needed and (elf.search or not name.startswith("lib/")):
            search = "$ORIGIN" if name.startswith("lib/") else "$ORIGIN/../lib"
            changed[name] = Item(with_library_path(data, search), item.mode)
    return changed
