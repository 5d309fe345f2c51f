# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check that each role's defaults/main.yml and meta/argument_specs.yml agree, and that names have their prefixes.

Defaults start with `<role>_`, or are variables of the inventory, `glidein_`, which are no options. Private variables
(vars/, registered ones, facts) start with `__<role>_`. Every option has a type and a description. The default of an
option that is not text may be a Jinja expression. It is then stated in the description, because documentation tools
interpret a `default` by its type. The keyword `diff` of a task hides a diff, and never shows one without --diff.
"""

import sys
from pathlib import Path

import yaml

# Types of options whose default may be a Jinja expression in argument_specs.yml: any text is one of theirs.
TEXT = ("str", "path", "raw")
# Prefix of the inventory's variables. docs/variables.md describes them, and a unit test compares names and defaults.
INVENTORY = "glidein_"
ROLES = Path(__file__).resolve().parents[2] / "roles"


def load(path):
    """Return the content of a YAML file, or an empty mapping if the file is missing or empty."""
    return (yaml.safe_load(path.read_text()) or {}) if path.is_file() else {}


def undocumented(options, prefix=""):
    """Return problems of options, including nested ones, without a type or a description."""
    complaints = []
    for name, option in options.items():
        label = prefix + name
        complaints += [
            f"{label}: argument_specs.yml gives no {key}" for key in ("type", "description") if not option.get(key)
        ]
        complaints += undocumented(option.get("options", {}), f"{label}.")
    return complaints


def is_computed(default, option):
    """Return whether a default is a Jinja expression whose result is not text."""
    return isinstance(default, str) and "{{" in default and option.get("type") not in TEXT


def computed_problems(option):
    """Return the problems of an option with a computed default."""
    if "default" in option:
        yield f"argument_specs.yml gives a Jinja expression as default of type {option.get('type')}: say it in words"
    lines = option.get("description") or []
    if not any(line.startswith("Default: ") for line in ([lines] if isinstance(lines, str) else lines)):
        yield 'argument_specs.yml has no line "Default: ..." in the description, and the default is computed'


def differences(defaults, options):
    """Return the differences between defaults and the argument specification."""
    complaints = []
    for name in sorted(set(defaults) | set(options)):
        option = options.get(name)
        if name.startswith(INVENTORY):
            complaints += [f"{name}: a variable of the inventory is no option"] if option else []
        elif option is None:
            complaints.append(f"{name}: in defaults/main.yml, not in meta/argument_specs.yml")
        elif name not in defaults:
            if "default" in option:
                complaints.append(f"{name}: argument_specs.yml has a default, defaults/main.yml has none")
        elif option.get("required"):
            complaints.append(f"{name}: required, yet it has a default")
        elif is_computed(defaults[name], option):
            complaints += [f"{name}: {problem}" for problem in computed_problems(option)]
        elif "default" not in option:
            complaints.append(f"{name}: argument_specs.yml lacks the default {defaults[name]!r}")
        elif (type(option["default"]), option["default"]) != (type(defaults[name]), defaults[name]):
            complaints.append(f"{name}: default is {defaults[name]!r}, argument_specs.yml says {option['default']!r}")
    return complaints


def misnamed(role, defaults, private):
    """Return problems of names without their role's prefix."""
    return [
        f"{name}: must start with {' or '.join(prefixes)}"
        for prefixes, names in (((f"{role}_", INVENTORY), defaults), ((f"__{role}_",), private))
        for name in names
        if not name.startswith(prefixes)
    ]


def tasks_in(tasks):
    """Yield tasks and those of their blocks."""
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part))


def shown_diffs(directory):
    """Return problems of tasks whose keyword `diff` shows a diff although --diff was not given."""
    return [
        f"{path.relative_to(directory)}: diff of `{task['name']}` must be false or begin with `ansible_diff_mode and`"
        for path in sorted(directory.glob("tasks/*.yml"))
        for task in tasks_in(load(path))
        if task.get("diff") and not str(task["diff"]).startswith("{{ ansible_diff_mode and ")
    ]


def complaints_of(directory):
    """Return all problems of one role."""
    role = directory.name
    specs = load(directory / "meta" / "argument_specs.yml").get("argument_specs", {})
    if "main" not in specs:
        return ["meta/argument_specs.yml: no entry point main"]
    defaults = load(directory / "defaults" / "main.yml")
    private = {name: None for path in sorted(directory.glob("vars/*.yml")) for name in load(path)}
    # Another entry point (tasks_from) takes a part of main's variables; each name is specified the same everywhere.
    options = {}
    complaints = []
    for entry, spec in specs.items():
        for key in ("short_description", "options"):
            if key not in spec:
                complaints.append(f"{entry}: argument_specs.yml gives no {key}")
        for name, option in (spec.get("options") or {}).items():
            known = options.setdefault(name, option)
            if known.get("default") != option.get("default") or known.get("type") != option.get("type"):
                complaints.append(f"{name}: entry point {entry} differs from another in type or default")
    complaints += misnamed(role, defaults, private) + shown_diffs(directory)
    return complaints + undocumented(options) + differences(defaults, options)


def main():
    """Check all roles; return exit status 1 if there is a problem."""
    directories = sorted(path for path in ROLES.iterdir() if path.is_dir())
    found = [f"roles/{path.name}: {complaint}" for path in directories for complaint in complaints_of(path)]
    print("\n".join([*found, f"{len(directories)} roles, {len(found)} complaints"]))
    return 1 if found or not directories else 0


if __name__ == "__main__":
    sys.exit(main())
