# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the inventory's `glidein_*` variables. Controller only.

From it come the check of the inventory, the options of modules that run on login nodes, and the variables that a cycle
reads for the whole deployment. Tests compare it with docs/, with the defaults of roles, playbooks and modules.
"""

import re
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import COLLECTOR, LIMITS, RESOURCE_LIMITS
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ANYTHING,
    Spec,
    Type,
    choice,
    duration,
    list_of_texts,
    whole_number,
)


def _boolean(value: Any) -> bool:
    try:
        return boolean(value)
    except TypeError:
        raise ValueError(value) from None


def _instance(kind: type) -> Callable[[Any], Any]:
    """Return a function that returns instances of a type and raises ValueError for others."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(value)
        return value

    return convert


def _text(pattern: str, expected: str) -> Type:
    """Return the type of texts that match a pattern."""

    def convert(value: Any) -> Any:
        if not re.match(rf"({pattern})\Z", _instance(str)(value)):
            raise ValueError(value)
        return value

    return Type(expected, convert, is_text=True)


# As in Ansible: also "yes" and "no", which an INI inventory does not convert.
BOOLEAN = Type("true or false", _boolean)
_DURATION = duration(0)
# Kind of a variable -> the check of its value.
_KINDS = {
    "boolean": BOOLEAN,
    "duration": _DURATION,
    "list": Type("a list", _instance(list)),
    "mapping": Type("a mapping", _instance(dict)),
    "number": whole_number(0),
    "text": Type("text", _instance(str), is_text=True),
}
# Modules that run on login nodes: each of them, and those that submit batch jobs.
EACH = (
    "glideins",
    "node_probe",
    "queue_info",
    "site_cleanup",
    "site_drain",
    "site_removal",
    "submission_info",
)
JOBS = ("glideins", "node_probe")


class Variable(NamedTuple):
    """A variable of the inventory.

    kind: of _KINDS; default: a text may be a template; an empty value, or None, stands for none; required: whether
    cycles need it of each site; modules: those that have an option of the same name without the prefix; check: a
    narrower Type, ANYTHING for values that are checked where they are used; options: the Spec of the keys of a mapping;
    secret: whether errors must not quote the value, which is checked where it is used, too.
    """

    kind: str
    default: Any
    meaning: str
    required: bool = False
    modules: Tuple[str, ...] = ()
    check: Optional[Type] = None
    options: Optional[Spec] = None
    secret: bool = False

    def argument_spec(self) -> Dict[str, Any]:
        """Return the argument spec, for a Spec. A default that is a template is left out."""
        check = ANYTHING if self.secret else self.check or _KINDS[self.kind]
        spec: Dict[str, Any] = {"type": Type(f"{check.expected} ({self.meaning})", check.convert, check.is_text)}
        if self.options:
            spec["options"] = self.options
        if self.required:
            return dict(spec, required=True)
        return spec if "{{" in str(self.default) else dict(spec, default=self.default)


VARIABLES = {
    "glidein_allocation": Variable(
        "text", "priority", "how entries of the same priority share the jobs", check=choice("priority", "spread")),
    "glidein_budget": Variable("mapping", {}, "core-hours that all entries of the site may use", check=ANYTHING),
    "glidein_cache_dir": Variable(
        "text",
        "{{ lookup('ansible.builtin.env', 'XDG_CACHE_HOME') | default('~/.cache', true) }}/glidein.ops",
        "directory of the controller that caches tarballs and packages"),
    "glidein_ce": Variable("text", "", "the HTCondor-CE, HOST or HOST:PORT"),
    "glidein_ce_token_command": Variable("list", [], "argument list of a command that prints a new token for the CE"),
    "glidein_ce_token_file": Variable("text", "", "file with the token for the CE"),
    "glidein_checks_dir": Variable("text", "", "directory on the controller with checks of the operator"),
    "glidein_collector": Variable(
        "text", None, "the collector that glideins join", required=True, modules=("glideins",), check=COLLECTOR),
    "glidein_condor_config": Variable(
        "mapping", {}, "settings of HTCondor in the site's glideins", modules=("glideins",)),
    "glidein_credential": Variable(
        "text", "token", "credential of the site's glideins", modules=("glideins",),
        check=choice("token", "pool_password")),
    "glidein_credential_file": Variable(
        "text", "", "file of the controller with the credential, instead of that of the central manager"),
    "glidein_cycle_lock": Variable("text", "", "file or directory that a cycle locks while it runs"),
    "glidein_demand_ca_path": Variable("text", "", "CA certificates of the demand server's https address"),
    "glidein_demand_token": Variable("text", "", "the site's secret for the demand server", secret=True),
    "glidein_demand_url": Variable(
        "text", None, "address of the demand server, such as http://cm.example.org:11001", required=True),
    "glidein_deployment": Variable("text", "glidein", "name of the deployment", modules=EACH, check=ANYTHING),
    "glidein_deployment_limits": Variable(
        "mapping", {}, "limits over all sites",
        options=Spec({key: {"type": whole_number(0)} for key in LIMITS + RESOURCE_LIMITS})),
    "glidein_eagerness": Variable(
        "text", "certain", "how many more glideins than their jobs need the entries get", check=ANYTHING),
    "glidein_entries": Variable("mapping", None, "the site's entries", required=True, modules=EACH, check=ANYTHING),
    "glidein_environment": Variable("mapping", {}, "environment variables of the batch jobs", modules=JOBS),
    "glidein_fail_on_error": Variable("boolean", False, "whether a cycle with problems ends with an error"),
    "glidein_gateway": Variable("boolean", False, "whether the login node has a gateway"),
    "glidein_gateway_blah_config": Variable("mapping", {}, "settings of blahp"),
    "glidein_gateway_dir": Variable("text", "~/.glidein-gateway", "directory of gateways on the login node"),
    "glidein_gateway_extra_config": Variable("text", "", "further lines of the gateway's configuration"),
    "glidein_gateway_idle_shutdown": Variable(
        "duration", "", "time without jobs after which the gateway ends",
        check=Type(f"{_DURATION.expected}, or nothing", lambda value: _DURATION.convert(0 if value == "" else value))),
    "glidein_gateway_routes": Variable("text", "", "routes in the language of the job router's configuration"),
    "glidein_gateway_ssh": Variable("boolean", False, "whether the access point submits by SSH"),
    "glidein_gateway_ssh_from": Variable(
        "text", "", "addresses of the access point",
        check=_text("[A-Za-z0-9.:/*?!,-]*", "addresses as in the option from of authorized_keys, or nothing")),
    "glidein_gateway_ssh_host": Variable(
        "text", "{{ hostvars[inventory_hostname].ansible_host | default(inventory_hostname) }}",
        "the login node as the access point reaches it",
        check=_text("[A-Za-z0-9:][A-Za-z0-9.:-]*", "a name or address")),
    "glidein_gateway_ssh_key": Variable(
        "text", "", "private key of the submitting user on the access point",
        check=_text(r"((~|)(/[A-Za-z0-9._-]+)+|)", "a path that begins with / or ~/, or nothing to make a key")),
    "glidein_gateway_submit_host": Variable(
        "text",
        "{{ (groups['glidein_demand_server'] | default([]) + groups['glidein_central_manager'] | default([])) | first"
        " | default('') }}",
        "the access point, a host of the inventory"),
    "glidein_gateway_submit_user": Variable(
        "text", "", "user of the access point that submits pilots",
        check=_text("([A-Za-z_][A-Za-z0-9._-]*)?", "the name of a user")),
    "glidein_gateway_supervisor": Variable(
        "text", "auto", "what keeps the gateway alive", check=choice("auto", "systemd", "cron")),
    "glidein_guard": Variable(
        "mapping", {}, "limits on submission in case of doubt",
        options=Spec({
            "enabled": {"type": BOOLEAN, "default": True},
            "ramp_first": {"type": whole_number(1), "default": 25},
            "cancel_delay": {"type": whole_number(0), "default": 600},
            "overdue": {"type": whole_number(0), "default": 600},
            "hold_readings": {"type": whole_number(0), "default": 2},
        })),
    "glidein_home": Variable(
        "text", "~/.glidein", "directory of the login node that the compute nodes also see", modules=EACH),
    "glidein_job_wrapper": Variable("text", "", "program of the controller that starts the jobs"),
    "glidein_limits": Variable("mapping", {}, "limits over all entries of the site", modules=EACH, check=ANYTHING),
    "glidein_log_days": Variable(
        "number", 14, "days after which logs are removed; 0 keeps all", modules=("glideins", "site_cleanup")),
    "glidein_log_dir": Variable("text", "", "directory of the logs on the login node", modules=EACH),
    "glidein_log_interval": Variable(
        "duration", 0, "interval in which glideins copy their logs; 0 for only at their end", modules=("glideins",)),
    "glidein_log_s3": Variable(
        "mapping", {}, "S3 bucket to which glideins upload their logs", modules=("glideins",), secret=True),
    "glidein_login_hook": Variable("mapping", {}, "command or URL for a lost SSH session", secret=True),
    "glidein_modules": Variable("list", [], "environment modules that batch jobs load first", modules=JOBS),
    "glidein_order": Variable(
        "list", ["gpus", "memory", "cpus", "disk"], "order of the groups of jobs, large first",
        check=list_of_texts(
            re.compile(r"-?(cpus|memory|disk|gpus|count|runtime)\Z"),
            "a list of cpus, memory, disk, gpus, count and runtime, each also with - before it")),
    "glidein_payload_files": Variable("list", [], "files of the controller that travel with the payload"),
    "glidein_platforms": Variable(
        "list", [], "names of glidein_tarballs that the nodes need",
        check=list_of_texts(re.compile(r"\S+\Z"), "a list of names")),
    "glidein_pull": Variable("boolean", False, "whether the login node runs the site's cycles itself"),
    "glidein_pull_python": Variable("text", "python3", "a Python 3.10 or later on the login node"),
    "glidein_pull_schedule": Variable(
        "text", "*/5 * * * *", "schedule of cron on the login node",
        check=_text(r"(\S+\s+){4}\S+|", "the five fields of cron, or nothing")),
    "glidein_queue_wait": Variable("duration", "3d", "how long a glidein may wait in the site's queue"),
    "glidein_renew": Variable("boolean", False, "whether a cycle renews tokens that expire soon"),
    "glidein_revoked": Variable("boolean", False, "whether the pool refuses the site's credential"),
    "glidein_scheduler": Variable("text", None, "batch system", required=True, modules=EACH, check=ANYTHING),
    "glidein_scheduler_options": Variable("mapping", {}, "options of the batch system", modules=EACH, check=ANYTHING),
    "glidein_scratch": Variable(
        "text", "${TMPDIR:-/tmp}", "where a glidein creates its scratch directory",
        modules=("glideins", "node_probe", "site_cleanup")),
    "glidein_site": Variable("text", "{{ inventory_hostname }}", "name of the site", modules=EACH, check=ANYTHING),
    "glidein_site_timeout": Variable(
        "duration", "5m", "time limit of each task of a cycle on the login node", check=duration(1)),
    "glidein_ssh_prompts": Variable("list", [], "stored answers to the login node's questions", secret=True),
    "glidein_ssh_session": Variable("boolean", False, "whether the site is reached over a session"),
    "glidein_ssh_session_args": Variable("text", "", "ssh arguments for the login only"),
    "glidein_ssh_session_dir": Variable("text", "~/.glidein-ops/ssh", "directory of the sessions' sockets"),
    "glidein_tarball_file": Variable(
        "text", "", "file of the controller with the tarball, instead of those of the central manager"),
    "glidein_tarball_url": Variable(
        "text", "", "web server from which glideins fetch their tarball",
        check=_text(r"(https?://[A-Za-z0-9._~:/@%+,=-]*[^/])?",
                    "http:// or https://, then letters, digits and . _ ~ : / @ % + , = - without a slash at the end")),
    "glidein_tarballs": Variable("mapping", {"native": {"source": "installed"}}, "platforms of the tarballs"),
}  # fmt: skip
