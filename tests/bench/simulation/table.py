# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of results, with the aims that are met."""

from simulation.parameters import NEGOTIATION_S

WAIT_FACTOR = 1.1
WASTE_FACTOR = 0.5
WIDTH = 100


def aims(found):
    """Return {rule: (wait is met, waste is met)} of one workload. found: {policy: metrics.summary} with `plan`."""
    plan = found["plan"]
    return {
        rule: (
            plan["wait_median_s"] <= WAIT_FACTOR * other["wait_median_s"],
            plan["wasted_hours"] <= WASTE_FACTOR * other["wasted_hours"],
        )
        for rule, other in found.items()
        if not is_plan(rule)
    }


def is_plan(policy):
    """Return whether a policy is the plan, with any eagerness."""
    return policy.partition("@")[0] == "plan"


def reached(found):
    """Return the first step of eagerness that waits as long as PyGlidein at half of its waste at most, or None.

    As long: at most WAIT_FACTOR times as long or one negotiation longer; waste: wasted_hours.
    """
    other = found["pyglidein"]
    longest_s = max(WAIT_FACTOR * other["wait_median_s"], other["wait_median_s"] + NEGOTIATION_S)
    for policy, row in found.items():
        met = row["wait_median_s"] <= longest_s and row["wasted_hours"] <= WASTE_FACTOR * other["wasted_hours"]
        if is_plan(policy) and met:
            return policy
    return None


def steps(reached_by_workload):
    """Return which step of eagerness meets the aim of `reached` in each workload, as text."""
    lines = [f"  {workload:<16}{step or 'no step'}" for workload, step in reached_by_workload.items()]
    return "\n".join(["waits as long as PyGlidein, with at most half of its waste:", *lines])


def aims_met(results):
    """Return {key: number}: the waits and wastes that meet their aims, and the wastes that do in empty_hours.

    results: {workload: {policy: metrics.summary}}.
    """
    pairs = [pair for found in results.values() for pair in aims(found).values()]
    strict = [
        found["plan"]["empty_hours"] <= WASTE_FACTOR * other["empty_hours"]
        for found in results.values()
        for rule, other in found.items()
        if not is_plan(rule)
    ]
    waits, wastes = (sum(met) for met in zip(*pairs, strict=True))
    return {
        "aims_met": waits + wastes,
        "aims": 2 * len(pairs),
        "waits_met": waits,
        "wastes_met": wastes,
        "wastes_met_by_empty_hours": sum(strict),
    }


def table(results):
    """Return lines of at most WIDTH characters. results: {workload: {policy: metrics.summary}}."""
    heading = (
        f"{'workload':<16}{'policy':<11}{'median':>8}{'95 %':>9}{'wasted':>8}{'empty':>6}{'glideins':>9}{'turns':>6}"
    )
    lines = [f"{heading}  plan against it", f"{'':<27}{'wait':>8}{'wait':>9}{'hours':>8}{'hours':>6}{'per job':>9}"]
    for workload, found in results.items():
        verdicts = aims(found)
        for policy, row in found.items():
            line = f"{workload:<16}{policy:<11}{duration(row['wait_median_s']):>8}{duration(row['wait_p95_s']):>9}"
            line += f"{row['wasted_hours']:>8,.0f}{row['empty_hours']:>6,.0f}"
            line += f"{row['glideins_per_job']:>9.3f}{row['reversals']:>6.1f}"
            if policy in verdicts:
                line += f"  {_against(found['plan'], row, verdicts[policy])}"
            lines.append(line.rstrip()[:WIDTH])
            workload = ""  # noqa: PLW2901 - printed once
    return lines


def duration(seconds):
    """Return seconds in a readable unit."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02}" if minutes >= 60 else f"{seconds / 60:.1f} min"


def _against(plan, other, met):
    parts = []
    for name, key, is_met in zip(("wait", "waste"), ("wait_median_s", "wasted_hours"), met, strict=True):
        ratio = plan[key] / other[key] if other[key] else float(plan[key] > 0)
        parts.append(f"{name} {ratio:.2f}{'' if is_met else '!'}")
    return ", ".join(parts)
