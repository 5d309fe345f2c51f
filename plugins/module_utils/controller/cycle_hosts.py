# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cycle hands from its hosts to the tasks that run once for all of them. Controller only.

A task for each host costs a process for each; these functions read the hosts' variables in one. `hostvars` is
Ansible's: {host: variables, which are templated when they are read}. Hosts whose queue the cycle has not asked, because
they left the play before, are left out.
"""

import re
import time
from collections.abc import Mapping

from ansible.module_utils.ansible_release import __version__ as ansible_version
from ansible_collections.glidein.ops.plugins.module_utils.command import excerpt
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import unknown_of_host
from ansible_collections.glidein.ops.plugins.module_utils.controller.server_token import TOKEN, UNFIT
from ansible_collections.glidein.ops.plugins.module_utils.site_report import has_work, site_report, unserved

# Of the module glideins, which has the same.
_LOG_DAYS = 14
# The oldest Python of a login node that each ansible-core serves; a later ansible-core than these serves no older one.
_OLDEST_PYTHON = {"2.16": "3.6", "2.17": "3.7", "2.18": "3.8", "2.19": "3.8"}
_OLDEST_PYTHON_LATER = "3.9"
# What a login node's Python prints if the controller's ansible-core is too new for it.
_TOO_OLD = re.compile(r"^SyntaxError: |requires a minimum of Python", re.MULTILINE)
# Ansible's message if a login node did not return a module's result.
_NO_RESULT = re.compile(r"No start of json char found|MODULE FAILURE")
_UNDEFINED = re.compile(r"^'[A-Za-z_][A-Za-z0-9_]*' is undefined\Z")


def cycle_sites(hostvars, hosts):
    """Return the `sites` of the module plan. A site whose variables cannot be read has an `error`, as have those whose
    queue could not be."""
    return [
        _site(site, variables, unknown_of_host(hostvars, host, variables))
        for host, site, variables in _asked(hostvars, hosts)
    ]


def cycle_tokens(hostvars, hosts):
    """Return {site: token} of the hosts that have a token for the demand server."""
    tokens = {site: _token(variables)[0] for _host, site, variables in _asked(hostvars, hosts)}
    return {site: token for site, token in tokens.items() if token}


def cycle_work(hostvars, hosts, plans, demand, now_s=None):
    """Return the names of the sites where the module glideins has something to do, or an error to tell.

    plans: {site: items of the plan}; demand: result of demand_info; now_s: epoch seconds, default this moment.
    """
    now_s = time.time() if now_s is None else now_s
    return [
        site
        for _host, site, variables in _asked(hostvars, hosts)
        if _has_work(variables, plans.get(site), _since(site, demand), now_s)
    ]


def cycle_reports(hostvars, hosts, plans, plan):
    """Return the `sites` of the module demand_report: [{"site", "report"}].

    plans: {site: items of the plan}; plan: result of the module plan, which says why there are none.
    """
    return [
        {"site": site, "report": dict(_report(variables, plans.get(site), plan), **unserved(plan, site))}
        for _host, site, variables in _asked(hostvars, hosts)
    ]


def cycle_outcomes(hostvars, hosts, reported):
    """Return the outcomes that cycle_summary takes. reported: result of demand_report."""
    return [
        {
            "host": host,
            "site": site,
            "error": "; ".join(filter(None, [_queue_error(variables)] + unknown_of_host(hostvars, host, variables)))
            or None,
            "queue": variables["cycle_queue"].get("queue"),
            "matched": variables.get("cycle_glideins") or {},
            "report_error": _report_error(site, reported),
        }
        for host, site, variables in _asked(hostvars, hosts)
    ]


def _asked(hostvars, hosts):
    """Yield (host, its site's name, its variables).

    Variables are looked up once: Ansible puts all of a host's together each time.
    """
    for host in hosts:
        variables = hostvars[host]
        if "cycle_queue" in variables:
            yield host, _name(host, variables), variables


def _site(name, variables, unknown):
    site = {
        "site": name,
        "scheduler": "",
        "scheduler_options": {},
        "entries": {},
        "limits": {},
        "queue": variables["cycle_queue"].get("queue"),
        "error": _queue_error(variables),
    }
    for key in ("scheduler", "scheduler_options", "entries", "limits"):
        try:
            if key == "scheduler":
                site[key] = str(variables.get("glidein_scheduler") or "")
            else:
                site[key] = _mapping(variables, f"glidein_{key}")
        # Of whatever kind: a variable may name another that is missing, or be in a vault of another password.
        except Exception as error:  # pylint: disable=broad-exception-caught
            text = f"glidein_{key}: {_VAULT}" if _is_of_vault(error) else str(error)
            site.update(entries={}, queue=None, error=site["error"] or text)
            break
    # Without a token the site takes no lease, and would order for the same jobs as others. A misspelt variable may be a
    # limit.
    wrong = "; ".join(filter(None, [_token(variables)[1]] + unknown))
    if wrong:
        site.update(queue=None, error=site["error"] or wrong)
    return site


def _mapping(variables, name):
    value = variables.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: {value!r} is not accepted; allowed: a mapping")
    return value


def _name(host, variables):
    """Return a site's name; that of its host where it has none, or none that can be read."""
    try:
        return str(variables.get("glidein_site") or host)
    except Exception:  # pylint: disable=broad-exception-caught
        return host


def _token(variables):
    """Return (a site's token, what is wrong with it), each None where there is none."""
    try:
        token = variables.get("glidein_demand_token") or None
    except Exception as error:  # pylint: disable=broad-exception-caught
        return None, f"glidein_demand_token: {_why_unreadable(error)}"
    if token and not TOKEN.match(str(token)):
        return None, f"glidein_demand_token: {UNFIT}"
    return token, None


_VAULT = (
    "the vault that holds it cannot be decrypted: the vault password is missing or wrong (--ask-vault-pass, "
    "--vault-password-file)"
)


def _why_unreadable(error):
    """Return why a secret variable cannot be read. The text of other errors may quote the secret, and is not shown."""
    if _is_of_vault(error):
        return _VAULT
    if _UNDEFINED.match(str(error)):
        return f"it refers to a variable that is not there: {error}"
    return f"cannot be read ({type(error).__name__}; not shown)"


def _is_of_vault(error):
    """Tell whether an error, or one that caused it, comes from Ansible's vault."""
    while error is not None:
        if "Vault" in type(error).__name__:
            return True
        error = error.__cause__ or error.__context__
    return False


def _queue_error(variables):
    """Return why a site's queue is not known; None when it is. Without an SSH session it was not even asked."""
    result = variables["cycle_queue"]
    if result.get("queue") is not None:
        return None
    if result.get("skipped"):
        result = variables.get("cycle_session") or {}
    return module_error(result) or "its queue was not read"


def module_error(result):
    """Return why a module's task failed on a login node, with the remedy if the login node's Python is too old."""
    message = str(result.get("msg") or "")
    if not _NO_RESULT.search(message):
        return message
    printed = str(result.get("module_stderr") or "") or str(result.get("module_stdout") or "")
    if not _TOO_OLD.search(printed):
        return f"the login node did not return a module's result: {excerpt(printed) or message!r}"
    version = ".".join(ansible_version.split(".")[:2])
    return (
        f"the Python of the login node is too old for ansible-core {ansible_version} of the controller, which needs "
        f"Python {_OLDEST_PYTHON.get(version, _OLDEST_PYTHON_LATER)} or later there. Set ansible_python_interpreter of "
        "this host to a newer Python, or run the cycles with an older ansible-core: 2.16 serves Python 3.6 and later"
    )


def _has_work(variables, items, since, now_s):
    queue = variables["cycle_queue"].get("queue")
    if queue is None or items is None:
        return False
    try:
        token = str(variables.get("glidein_credential") or "token") == "token"
        log_days = int(variables.get("glidein_log_days", _LOG_DAYS))
    # Of whatever kind: the task says what is wrong with the variable.
    except Exception:  # pylint: disable=broad-exception-caught
        return True
    return has_work(queue, items, token, since, log_days, now_s)


def _since(site, demand):
    """Return up to when the server knows the site's summaries; None when it does not ask, as earlier versions."""
    known = (demand.get("supply") or {}).get("summaries_until")
    return None if known is None else known.get(site) or 0


def _report(variables, items, plan):
    """Return what to report of a host: what the module glideins says, why it failed, or why there was no plan. Where it
    was not run because there was nothing to do, the queue is as it was read."""
    matched = variables.get("cycle_glideins") or {}
    if matched.get("report"):
        return matched["report"]
    queue = variables["cycle_queue"].get("queue")
    if queue is not None and items is not None and not (matched.get("failed") or matched.get("unreachable")):
        return dict(site_report(queue, items), summaries=None)
    error = _queue_error(variables) or matched.get("msg") or plan.get("msg") or "not planned"
    return {"error": str(error)}


def _report_error(site, reported):
    """Return why the report of a site was not accepted, or None. A module that did not begin has no list of errors."""
    if not reported.get("failed"):
        return None
    if "errors" not in reported:
        return str(reported.get("msg"))
    return next((each["error"] for each in reported["errors"] if each["site"] == site), None)
