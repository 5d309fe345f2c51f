# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glidein_scheduler_options, with the commands of the operator's own that count, and of the environment."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError


def test_an_unknown_batch_system_is_named_with_the_known_ones():
    with pytest.raises(InputError, match="glidein_scheduler: 'slrum' is invalid; expected .*slurm"):
        make_scheduler("slrum")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"command": {}}, "glidein_scheduler_options.command: unknown key"),
        ({"timeout": 0}, "glidein_scheduler_options.timeout: 0 is invalid"),
        ({"timeout": "1m"}, "glidein_scheduler_options.timeout: '1m' is invalid"),
        ({"grace": -3}, "glidein_scheduler_options.grace: -3 is invalid; expected a whole number of at least 1"),
        ({"commands": {"qsub": ["qsub"]}}, "commands.qsub: unknown key; the keys are sbatch, scancel, squeue"),
        (
            {"commands": {"sbatch": "sbatch -v"}},
            "commands.sbatch: 'sbatch -v' is invalid; expected an argument list",
        ),
        (
            {"commands": {"sbatch": ["a\0b"]}},
            "commands.sbatch: ['a\\x00b'] is invalid; expected an argument list without NUL characters",
        ),
        ({"commands": ["x"]}, "glidein_scheduler_options.commands: "),
        # An option of PBS Professional.
        ({"rerunnable_arrays": True}, "rerunnable_arrays: unknown key; the keys are commands, grace, timeout"),
    ],
)
def test_an_error_names_the_option_and_the_allowed_values(options, words):
    with pytest.raises(InputError) as raised:
        make_scheduler("slurm", options)
    assert words in str(raised.value)


def test_commands_time_limit_and_grace_can_be_replaced():
    made = make_scheduler("slurm", {"commands": {"sbatch": ["/opt/sbatch", "-v"]}, "timeout": "5", "grace": 90})
    assert made.submit_argv("/s", "g", 2)[:2] == ["/opt/sbatch", "-v"]
    assert made.list_argv("me")[0] == "squeue"
    assert made.runner.timeout_s == 5
    assert made.options["grace"] == 90


@pytest.mark.parametrize("options", [None, {}, {"commands": None}])
def test_without_options_the_batch_system_is_as_installed(options):
    assert make_scheduler("slurm", options).argv["squeue"] == ["squeue"]


# Batch system -> variables of the user that reach the commands, and others that would change them or their output.
ENVIRONMENTS = {
    "slurm": ("SLURM_CONF SLURM_CONF_SERVER", "SBATCH_PARTITION SQUEUE_FORMAT SLURM_TIME_FORMAT"),
    "pbspro": ("PBS_DEFAULT", "PBS_DPREFIX PBS_QSTAT_EXECONLY PBSDEBUG"),
    "torque": ("PBS_DEFAULT", "PBS_DPREFIX PBS_QSTAT_EXECONLY PBSDEBUG"),
    "sge": ("SGE_ROOT SGE_CELL SGE_QMASTER_PORT", "SGE_TASK_ID SGE_LONG_QNAMES"),
    "htcondor": ("_condor_SCHEDD_HOST CONDOR_CONFIG", "_CONDOR_CONDOR_Q_ONLY_MY_JOBS _condor_SUBMIT_ATTRS"),
    # The environment of bsub becomes that of the job.
    "lsf": (
        "PATH LSF_ENVDIR LSF_SERVERDIR EGO_CONFDIR",
        "TMPDIR LSB_DEFAULTQUEUE LSB_BJOBS_FORMAT BSUB_QUIET LSF_EAUTH_CLIENT SECRET",
    ),
}


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_the_users_own_settings_do_not_reach_the_commands(kind):
    kept, removed = (dict.fromkeys(names.split(), "x") for names in ENVIRONMENTS[kind])
    made = make_scheduler(kind, environ=dict(kept, HOME="/h", **removed))
    assert made.runner.environment == dict(kept, HOME="/h", LC_ALL="C", TZ="UTC0")
