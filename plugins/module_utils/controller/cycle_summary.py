# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads at the end of a cycle, and when asking how things stand. Pure functions, lines of text."""

import collections
import textwrap

from ansible_collections.glidein.ops.plugins.module_utils.controller.lease_requests import trim
from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import listed
from ansible_collections.glidein.ops.plugins.module_utils.token_expiry import REMEDY, utc

WIDTH = 100
# The first columns of a table are names, of up to 64 characters each: they share what the numbers leave. Numbers of 8
# characters everywhere, and SUBMITTED with a job id, leave 4 for each name.
_NAMES = 3
_NAME_LEAST = 4
_NUMBER_MOST = 9999999
_JOB_IDS_MOST = 12
# A problem may quote what a command printed, and there may be a problem or a group of jobs for every user and site.
_PROBLEM_MOST = 800
_LISTED_MOST = 20
_SITES_MOST = 5
# So many of the collector's problems are listed.
_SUPPLY_PROBLEMS_MOST = 5
_UNKNOWN = "kept as it is, its queue is not known"
# Time enough for someone to deploy again, also over a weekend.
_TOKEN_LEAST_S = 3 * 86400

_CYCLE_HEAD = ("SITE", "ENTRY", "SHAPE", "PRESENT", "QUEUED", "RUNNING", "REGISTERED", "SUBMITTED", "CANCELLED")
_CHECK_HEAD = _CYCLE_HEAD[:-2] + ("TO SUBMIT", "TO CANCEL")
_STATUS_HEAD = ("SITE", "ENTRY", "SHAPE", "QUEUED", "RUNNING", "SICK", "REGISTERED", "USED", "DEMAND")


def cycle_summary(outcomes, demand, plan, lease=None, check_mode=False):
    """Return {"lines", "problems"}: what a cycle decided and did.

    outcomes: [{"host", "site", "error", "queue": of queue_info, "matched": result of glideins, "report_error"}],
    matched also of tasks that were skipped; demand, plan, lease: results of demand_info, plan and demand_lease, each
    with "msg" instead of its values when it failed, lease also when it was skipped. In check mode the lines say what
    would be done.
    """
    outcomes = list(outcomes)
    before = plan.get("plan") or []
    plan = dict(plan, plan=_leased(lease, plan.get("plan")))
    items = plan["plan"] or []
    problems = [_one_line(problem) for problem in _cycle_problems(outcomes, demand, plan, lease)]
    rows = []
    for item in items:
        done = _done(outcomes, item, check_mode)
        if not _is_quiet(item, done):
            # Why a queue is not known is told among the problems, once for all shapes of a site.
            rows.append((_cycle_row(item, done), item["reason"] if item["queued"] is not None else _UNKNOWN))
    lines = _demand_lines(demand, plan, _lost_jobs(before, items, lease))
    lines += _part("", _table(_CHECK_HEAD if check_mode else _CYCLE_HEAD, rows))
    quiet = len(items) - len(rows)
    if quiet:
        lines += _part("", [f"{quiet} of {_many(len(items), 'shape')} without glideins, and without jobs for them."])
    lines += _part("", _orphan_lines(outcomes, check_mode))
    lines += _part("NOT SERVED", _unserved_lines(demand, plan))
    lines += _part("HELD BACK", _listed(plan.get("notes") or [], "note"))
    lines += _part("PROBLEMS", _listed(problems, "problem"))
    if check_mode:
        lines += ["", "Check mode: nothing was leased, submitted, cancelled or reported."]
    return {"lines": lines, "problems": problems}


def status_table(plan, demand):
    """Return the lines of the table of sites. plan, demand: results of plan and demand_info.

    USED is the share of the core-hours granted to glideins which ended in the last 7 days that jobs had.
    """
    items = plan.get("plan") or []
    supplied = (demand.get("supply") or {}).get("entries") or []
    work = {(each.get("site"), each.get("entry"), each.get("shape")): each.get("work") for each in supplied}
    rows = []
    for item in items:
        cells = [_number(item[key]) for key in ("queued", "running", "sick", "registered")]
        used = _used(work.get((item["site"], item["entry"], item["shape"])))
        rows.append((_names(item) + cells + [used, _number(sum(item["serves"].values()))], ""))
    problems = [f"no demand: {demand.get('msg')}"] if demand.get("failed") else []
    problems += _reading_problems(demand, plan)
    # The same for all entries of a site, whose queue is read at once.
    problems += [f"{item['site']}: {item['reason']}" for item in items if item["queued"] is None]
    problems += [f"{'/'.join(_names(item))}: {item['reason']}" for item in items if item["sick"]]
    problems += [f"{error['site']}: {error['error']}" for error in plan.get("errors") or []]
    lines = _demand_lines(demand, plan)
    lines += _part("", _table(_STATUS_HEAD, rows))
    lines += _part("WHY", _explanation_lines(plan))
    lines += _part("NOT SERVED", _unserved_lines(demand, plan))
    lines += _part("HELD BACK", _listed(plan.get("notes") or [], "note"))
    return lines + _part("PROBLEMS", _listed([_one_line(problem) for problem in dict.fromkeys(problems)], "problem"))


def _leased(lease, items):
    """Return the plan's items as the leases left them; None without a plan."""
    if items is None:
        return None
    if (lease or {}).get("failed") and "plan" not in lease:  # the module could not even begin
        return trim(items, dict.fromkeys(item["site"] for item in items))
    leased = {(item["site"], item["entry"], item["shape"]): item for item in (lease or {}).get("plan") or []}
    return [leased.get((item["site"], item["entry"], item["shape"]), item) for item in items]


def _lost_jobs(before, after, lease):
    """Return how many jobs lost their new glideins, by the reason: {text: jobs}."""
    lease = lease or {}
    failed = {error["site"] for error in lease.get("errors") or []}
    lost = {}
    for planned, leased in zip(before, after):
        site = planned["site"]
        if site in failed or "plan" not in lease:
            why = "without a lease"
        elif site in (lease.get("limited") or {}):
            why = "beyond the lease limit of their site"
        else:
            why = "that another controller leased first"
        lost[why] = lost.get(why, 0) + sum(planned["serves"].values()) - sum(leased["serves"].values())
    return lost


def _lease_problems(lease):
    """Return one sentence for each way in which leases failed, with the sites where they did."""
    if not (lease or {}).get("failed"):
        return []
    sites = {}
    for error in lease.get("errors") or []:
        sites.setdefault(error["error"], []).append(error["site"])
    said = [(f"{listed(names, _SITES_MOST)}: ", text) for text, names in sites.items()] or [("", lease.get("msg"))]
    return [f"{where}no lease, so nothing new was ordered: {text}" for where, text in said]


def _explanation_lines(plan):
    """Return why each entry serves the group that was asked about, or not."""
    lines = []
    for each in plan.get("explanation") or []:
        serves = f"{_many(each['serves'], 'job')}; " if each["serves"] else ""
        lines += _wrap(f"{each['site']}/{each['entry']}/{each['shape']}: {serves}{each['reason']}", "  ")
    return lines


def _cycle_problems(outcomes, demand, plan, lease):
    """Return one sentence for each thing that went wrong."""
    problems = []
    for what, result in (("no demand", demand), ("no plan", plan)):
        if result.get("failed"):
            problems.append(f"{what}, so nothing was changed: {result.get('msg')}")
    problems += _reading_problems(demand, plan)
    named = set()
    for outcome in outcomes:
        wrong = _site_problems(outcome)
        if wrong:
            named.add(outcome["site"])
        problems += [f"{outcome['site']} ({outcome['host']}): {problem}" for problem in wrong]
        problems += [f"{outcome['site']} ({outcome['host']}): {text}" for text in _token_problems(outcome)]
        if outcome["report_error"]:
            problems.append(f"{outcome['site']}: not reported to the demand server: {outcome['report_error']}")
    unknown = {item["site"]: item["reason"] for item in plan.get("plan") or [] if item["queued"] is None}
    problems += [f"{site}: {reason}" for site, reason in unknown.items() if site not in named]
    problems += _lease_problems(lease)
    # A wrong configuration has been told already by the site itself, but none knows that another has its name.
    hosts = collections.Counter(outcome["site"] for outcome in outcomes)
    problems += [
        f"{error['site']}: {error['error']}"
        for error in plan.get("errors") or []
        if error["site"] not in named or hosts[error["site"]] > 1
    ]
    return problems


def _reading_problems(demand, plan):
    """Return what the demand server could not read, and why a plan changes nothing."""
    problems = []
    for failed in ((demand.get("demand") or {}).get("schedds") or {}).get("failed") or []:
        problems.append(f"schedd {failed.get('name')} did not answer the demand server: {failed.get('error')}")
    error = (demand.get("supply") or {}).get("error")
    if error:
        problems.append(f"the demand server could not read the collector: {error}")
    problems += [str(line) for line in (demand.get("supply") or {}).get("problems") or []][:_SUPPLY_PROBLEMS_MOST]
    # One reason for all sites: without idle jobs no line of the table would show it. If the server was not read, the
    # reason is that, and not the plan's.
    reasons = [] if demand.get("failed") else [item["reason"] for item in plan.get("plan") or []]
    if (demand.get("demand") or {}).get("paused"):
        problems.append("the demand server is paused: nothing is submitted until it is resumed there")
    return problems + list(dict.fromkeys(reason for reason in reasons if reason.endswith(": nothing is changed")))


def _site_problems(outcome):
    """Return what went wrong at a site itself, a sentence each."""
    matched = outcome["matched"] or {}  # of a task that was skipped, it has nothing of what is looked for here
    prefix = f"Site {outcome['site']}: "

    def plain(text):
        text = str(text)
        return text[len(prefix) :] if text.startswith(prefix) else text

    if outcome["error"]:
        return [f"left as it is: {plain(outcome['error'])}"]
    if matched.get("errors"):
        return [
            (f"{error['entry']}/{error['shape']}: " if error["entry"] else "") + str(error["error"])
            for error in matched["errors"]
        ]
    if matched.get("unreachable"):
        return [f"{plain(matched.get('msg'))}; submissions may have been made before: the next cycle counts again"]
    # Without a list of errors the module could not even begin.
    return [plain(matched.get("msg"))] if matched.get("failed") else []


def _token_problems(outcome):
    """Return what is to be said of the end of a site's token, as its login node found it."""
    queue = outcome["queue"] or {}
    end = queue.get("credential_expires")
    if end is None or end - queue["as_of"] > _TOKEN_LEAST_S:
        return []
    # Then the module glideins says it.
    if end <= queue["as_of"] and (outcome["matched"] or {}).get("failed"):
        return []
    return [f"its token {'expires' if end > queue['as_of'] else 'expired'} at {utc(end)}: {REMEDY}"]


def _done(outcomes, item, check_mode):
    """Return (submitted, cancelled) as text for a plan item: numbers, and the job ids of what was submitted."""
    matched = next((outcome["matched"] or {} for outcome in outcomes if outcome["site"] == item["site"]), {})

    def of_item(what):
        return [
            each for each in matched.get(what) or [] if (each["entry"], each["shape"]) == (item["entry"], item["shape"])
        ]

    if check_mode:
        return tuple(_number(sum(each[what] for each in of_item("decisions"))) for what in ("submit", "cancel"))
    submitted = of_item("submitted")
    ids = ", ".join(str(each["job_id"] or "unknown") for each in submitted)
    return (
        _number(sum(each["count"] for each in submitted)) + (f" (job {_cut(ids, _JOB_IDS_MOST)})" if ids else ""),
        _number(sum(each["count"] for each in of_item("cancelled"))),
    )


def _is_quiet(item, done):
    """Whether there is nothing to say about a shape: no glidein there, none needed, nothing done, nothing wrong."""
    numbers = [item[key] for key in ("present", "queued", "running", "sick", "registered")]
    return done == ("0", "0") and numbers == [0] * len(numbers) and not item["serves"]


def _cycle_row(item, done):
    return _names(item) + [_number(item[key]) for key in ("present", "queued", "running", "registered")] + list(done)


def _names(item):
    return [item["site"], item["entry"], item["shape"]]


def _orphan_lines(outcomes, check_mode):
    """Return a line for each site whose queued orphans go; a plan has no item for them."""
    lines = []
    for outcome in outcomes:
        matched = outcome["matched"] or {}
        if check_mode:
            number = ((matched.get("before") or {}).get("orphans") or {}).get("queued", 0)
        else:
            number = sum(each["count"] for each in matched.get("cancelled") or [] if each["entry"] is None)
        if number:
            verb = "to cancel" if check_mode else "cancelled"
            orphans = _many(number, "queued glidein")
            lines += _wrap(f"{outcome['site']}: {orphans} {verb} whose entry or shape is not in the inventory.", "")
    return lines


def _groups(demand):
    """Return the demand's groups; None if there is no demand or a number of jobs is invalid, which the plan reports."""
    groups = (demand.get("demand") or {}).get("groups")
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        return None
    numbers = [group.get(key, 0) for group in groups for key in ("count", "stale", "over_limit", "leased")]
    return groups if all(isinstance(number, int) for number in numbers) else None


def _demand_lines(demand, plan, lost=None):
    """Return what waits, and for what; nothing when the demand is not known. lost: of _lost_jobs."""
    groups = _groups(demand)
    if groups is None or (demand["demand"].get("as_of", 0) is None and not groups):
        return []
    stale = sum(group.get("stale", 0) for group in groups)
    idle = sum(group["count"] for group in groups) - stale
    text = f"Demand: {_many(idle, 'idle job')} in {_many(len(groups), 'group')}" if idle else "Demand: no idle jobs"
    if idle and plan.get("plan") is not None:
        coming = sum(sum(item["serves"].values()) for item in plan["plan"])
        left = sum(each["count"] for each in plan.get("unserved") or [])
        parts = (
            (coming, "for glideins on their way"),
            (idle - coming - left - sum((lost or {}).values()), "for free slots"),
            *((jobs, why) for why, jobs in (lost or {}).items()),
            (left, "not served"),
        )
        text += ": " + ", ".join(f"{number} {what}" for number, what in parts if number > 0)
    more = (
        (stale, "of schedds that do not answer"),
        (
            sum(group.get("over_limit", 0) for group in groups),
            "that a limit keeps waiting (MAX_JOBS_RUNNING, max_materialize, concurrency limits, ceilings, quotas)",
        ),
        (sum(group.get("leased", 0) for group in groups), "that other sites have a lease on"),
    )
    text += "." + "".join(f" Not counted: {number} {what}." for number, what in more if number)
    return _wrap(text, "")


def _unserved_lines(demand, plan):
    """Return a paragraph for each group of jobs that no glidein is ordered for."""
    groups = {group["id"]: group for group in _groups(demand) or []}
    texts = []
    for each in plan.get("unserved") or []:
        first = groups.get(each["group"], {}).get("first_job")
        like = f" like {first}" if first else ""
        texts.append(f"{_many(each['count'], 'job')}{like} (group {each['group']}): {each['reason']}")
    for group in groups.values():
        for reason, jobs in sorted((group.get("limited_by") or {}).items()):
            texts.append(f"{_many(jobs, 'job')} (group {group['id']}): {reason}")
    for each in (demand.get("demand") or {}).get("unreadable") or []:
        first = each.get("first_job") or "unknown"
        why = each.get("error") or f"{each.get('attribute')} has no usable value"
        texts.append(f"{_many(each['count'], 'job')} like {first}: {why}, so that HTCondor never starts them")
    return _listed(texts, "group")


def _part(title, lines):
    """Return the lines with an empty one and a title before them; nothing when there are none."""
    return ([""] + ([title] if title else []) + lines) if lines else []


def _listed(texts, noun):
    """Return indented paragraphs, at most _LISTED_MOST, and how many there are more."""
    lines = [line for text in texts[:_LISTED_MOST] for line in _wrap(text, "  ")]
    more = len(texts) - _LISTED_MOST
    return lines + ([f"  and {_many(more, noun)} more"] if more > 0 else [])


def _table(head, rows):
    """Return aligned lines, each followed by its note; nothing without rows. rows: [(cells, note)].

    Names that are too long are cut; then the note begins with them in full.
    """
    if not rows:
        return []
    widths = _widths([head] + [cells for cells, note in rows])
    lines = [_row(head, widths)]
    for cells, note in rows:
        is_cut = any(len(cell) > width for cell, width in zip(cells, widths))
        texts = (["/".join(cells[:_NAMES])] if is_cut else []) + ([note] if note else [])
        lines += [_row(cells, widths)] + (_wrap(": ".join(texts), "  ") if texts else [])
    return lines


def _widths(rows):
    """Return the columns' widths: as wide as their cells, but names less so until all fit."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        widest = max(range(_NAMES), key=lambda column: widths[column])
        if widths[widest] <= _NAME_LEAST:
            break
        widths[widest] -= 1
    return widths


def _row(cells, widths):
    texts = [
        _cut(cell, width).ljust(width) if column < _NAMES else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths))
    ]
    return "  ".join(texts).rstrip()


def _wrap(text, indent):
    """Return the lines of a text of any origin: each within the width, further ones indented more."""
    return textwrap.wrap(_one_line(text), WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def _used(work):
    """The busy share of core-seconds, {"granted_core_s", "busy_core_s"}, in per cent; - where there were none."""
    granted = (work or {}).get("granted_core_s")
    return f"{round(100 * work['busy_core_s'] / granted)}%" if granted else "-"


def _one_line(text):
    """Return a text of any origin without line breaks and control characters, not too long to be read."""
    line = " ".join(str(text).split())
    return _cut("".join(character if character.isprintable() else "?" for character in line), _PROBLEM_MOST)


def _cut(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


def _many(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _number(value):
    """A number for people, of at most 8 characters; ? where nobody knows."""
    if value is None:
        return "?"
    return str(value) if value <= _NUMBER_MOST else f">{_NUMBER_MOST}"
