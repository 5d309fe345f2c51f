# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that a person reads, and which aims are met."""

WAIT_FACTOR = 1.1
WASTE_FACTOR = 0.5
WIDTH = 100


def aims(found):
    """{rule: (wait is met, waste is met)} of one workload. found: {policy: metrics.summary}, `plan` among them."""
    plan = found["plan"]
    return {
        rule: (
            plan["wait_median_s"] <= WAIT_FACTOR * other["wait_median_s"],
            plan["wasted_hours"] <= WASTE_FACTOR * other["wasted_hours"],
        )
        for rule, other in found.items()
        if rule != "plan"
    }


def table(results):
    """Lines of at most WIDTH characters. results: {workload: {policy: metrics.summary}}."""
    heading = f"{'workload':<16}{'policy':<11}{'median':>9}{'95 %':>9}{'wasted':>10}{'glideins':>10}{'turns':>7}"
    lines = [f"{heading}  plan against it", f"{'':<27}{'wait':>9}{'wait':>9}{'hours':>10}{'per job':>10}"]
    for workload, found in results.items():
        verdicts = aims(found)
        for policy, row in found.items():
            line = f"{workload:<16}{policy:<11}{duration(row['wait_median_s']):>9}{duration(row['wait_p95_s']):>9}"
            line += f"{row['wasted_hours']:>10,.0f}{row['glideins_per_job']:>10.3f}{row['reversals']:>7.1f}"
            if policy in verdicts:
                line += f"  {_against(found['plan'], row, verdicts[policy])}"
            lines.append(line.rstrip()[:WIDTH])
            workload = ""  # noqa: PLW2901 - said once
    return lines


def duration(seconds):
    """Seconds as a person reads them."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02}" if minutes >= 60 else f"{seconds / 60:.1f} min"


def _against(plan, other, met):
    parts = []
    for name, key, is_met in zip(("wait", "waste"), ("wait_median_s", "wasted_hours"), met, strict=True):
        ratio = plan[key] / other[key] if other[key] else float(plan[key] > 0)
        parts.append(f"{name} {ratio:.2f}{'' if is_met else '!'}")
    return ", ".join(parts)
