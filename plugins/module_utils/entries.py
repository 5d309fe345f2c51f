# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's entries as the operator writes them (glidein_entries, glidein_limits), checked and completed.

A mistake is reported as `variable: value is wrong; allowed: ...`, all mistakes of a site in one error.
"""

import itertools
import math
import re

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import NAME_RULE, did_you_mean, is_name
from ansible_collections.glidein.ops.plugins.module_utils.quoting import SCRATCH_RULE, scratch_word
from ansible_collections.glidein.ops.plugins.module_utils.units import DURATION_FORMS, parse_duration

RESOURCES = ("cpus", "memory_mb", "disk_mb", "gpus")
LIMITS = ("queued", "total", "per_cycle")
# What all glideins may have in sum; only the plan looks at them.
RESOURCE_LIMITS = ("cores", "gpus")
DEFAULT_LIMITS = {"queued": 10, "total": 100, "per_cycle": 10}
DEFAULT_RETIREMENT_S = 600
DEFAULT_IDLE_TIMEOUT_S = 1200
# A node that nobody else may use costs more.
WHOLE_NODE_IDLE_TIMEOUT_S = 600
# Who has run jobs and is empty is one too many: five negotiations (NEGOTIATOR_INTERVAL is 60 s) had none for it.
DEFAULT_IDLE_AFTER_JOB_S = 300
# What a glidein leaves of its walltime to stop in.
LONGEST_MARGIN_S = 120
# What passes of a glidein's life before its first job starts: it registers, and the negotiator comes by.
LONGEST_START_S = 120
# So many jobs in a row that fail, each within such a time, are the node's fault.
DEFAULT_FAST_FAILURES = 5
DEFAULT_FAST_FAILURE_S = 60
DEFAULT_CHECK_PERIOD_S = 600
DEFAULT_LOST_S = 1200
DEFAULT_LOG_MB = 20
# The memory that a glidein needs beside its jobs, as measured with HTCondor 23.9.6: 29 MiB before the first job (7 of
# the daemons, 21 of the unpacked tarball where the scratch directory is a tmpfs), up to 24 of logs and job records in a
# tmpfs, and 2 MiB for each running job. There is a margin in both.
MEMORY_OVERHEAD_MB = 64
MEMORY_OVERHEAD_PER_CPU_MB = 4
# The least free disk with which a glidein that takes what the node has goes on.
LEAST_DISK_MB = 1000

ENTRY_KEYS = (
    "queue",
    "account",
    "constraint",
    "walltime",
    "shapes",
    "node",
    "limits",
    "accept",
    "accept_requirements",
    "rank",
    "cpu_only",
    "gpu_only",
    "resources",
    "memory_per_core_mb",
    "memory_overhead_mb",
    "directives",
    "attributes",
    "environment",
    "modules",
    "scratch",
    "granted",
    "site_resource",
    "gpu_discovery",
    "cvmfs",
    "job_setup",
    "job_environment",
    "image",
    "retirement",
    "idle_timeout",
    "idle_after_job",
    "lost_timeout",
    "log_mb",
    "fast_failures",
    "fast_failure_time",
    "checks",
    "require_checks",
    "check_period",
    "priority",
    "weight",
)
SHAPE_KEYS = ("cpus", "memory_mb", "disk_mb", "min_disk_mb", "gpus", "gpu_type", "whole_node")
# The most sizes that a shape with ranges stands for.
SIZES_MOST = 64
# What stands behind the numbers in the names of these sizes.
_SIZE_UNITS = {"cpus": "c", "memory_mb": "m", "disk_mb": "d", "gpus": "g"}
# How the batch system is asked for what a shape has; each batch system says which of them it knows, and its own way.
RESOURCE_KEYS = ("memory", "memory_unit", "disk", "gpus", "gpu_type", "whole_node", "parallel_environment")

# What queues, accounts and GPU types are called on real systems; nothing that a directive line or a shell could read
# as more than one word.
_WORD = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+/=-]*\Z")
_WORD_RULE = "letters, digits and _ . , : @ + / = - without spaces"
# What node properties and features look like, alone or combined; still one word for a shell or a directive line.
_CONSTRAINT = re.compile(r"^[A-Za-z0-9_!(\[][A-Za-z0-9_.,:@+/=&|!*()\[\]<>-]*\Z")
_CONSTRAINT_RULE = "letters, digits and _ . , : @ + / = & | ! * ( ) [ ] < > - without spaces"
_MODULE = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.+/=-]*\Z")
_MODULE_RULE = "a list of names of environment modules: letters, digits and _ . + / = -"
_ATTRIBUTE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
_OWN_ATTRIBUTE = re.compile(r"^(glidein_|is_glidein\Z)", re.IGNORECASE)
# What glidein.sh accepts; see check_options in files/glidein/lib/settings.sh.
GRANTED = ("asked", "auto")
_DISCOVERY = re.compile(r"^[A-Za-z0-9 ,:._-]+\Z")
_REPOSITORY = re.compile(r"^[A-Za-z0-9][A-Za-z0-9.-]*\Z")
_NODE_PATH = re.compile(r"^/[A-Za-z0-9 /._,+@%=~-]*\Z")
_IMAGE = re.compile(r"^[A-Za-z0-9/._][A-Za-z0-9/._:@+-]*\Z")
# What stands in HTCondor's list of arguments as it is.
_CHECK_ARGUMENTS = re.compile(r"^[A-Za-z0-9_./:@%+=,-]+( +[A-Za-z0-9_./:@%+=,-]+)*\Z")
_CHECK_ARGUMENTS_RULE = "words of letters, digits and _ . / : @ % + = , -"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Attributes pass through HTCondor's configuration, where $(X) and $ENV(X) would be replaced.
_MACRO = re.compile(r"\$[A-Za-z_]*\(")
_EXPRESSION_MOST = 10000
# Parts of a node that shapes are made of where none are given.
LADDER = ("whole", "half", "quarter", "eighth", "sixteenth", "thirtysecond", "sixtyfourth")
# The most keys that an error lists.
_KEYS_LISTED = 10
_INTEGER = re.compile(r"^[+-]?[0-9]+\Z")


class _Checker:
    """Collects mistakes; every method returns a usable value so that checking can go on."""

    def __init__(self):
        self.problems = []

    def wrong(self, variable, value, allowed):
        shown = repr(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        self.problems.append(f"{variable}: {shown} is not accepted; allowed: {allowed}")

    def missing(self, variable, allowed):
        self.problems.append(f"{variable}: missing; allowed: {allowed}")

    def mapping(self, variable, value, keys=None):
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(variable, value, "a mapping" + (f" with the keys {', '.join(keys)}" if keys else ""))
            return {}
        if keys:
            for key in value:
                if key not in keys:
                    self.unknown_key(f"{variable}.{key}", key, keys)
        return value

    def unknown_key(self, variable, key, keys):
        listed = f"the keys are {', '.join(keys)}" if len(keys) <= _KEYS_LISTED else "docs/variables.md lists the keys"
        self.problems.append(f"{variable}: no such key here{did_you_mean(key, keys)}; {listed}")

    def integer(self, variable, value, minimum=None, default=None, required=False):
        if value is None:
            if required:
                self.missing(variable, _integer_rule(minimum))
            return default
        number = integer(value)
        if number is None or (minimum is not None and number < minimum):
            self.wrong(variable, value, _integer_rule(minimum))
            return default
        return number

    def duration(self, variable, value, minimum, default=None, required=False):
        if value is None:
            if required:
                self.missing(variable, f"at least {minimum} s: {DURATION_FORMS}")
            return default
        seconds = parse_duration(value)
        if seconds is None or seconds < minimum:
            self.wrong(variable, value, f"at least {minimum} s: {DURATION_FORMS}")
            return default
        return seconds

    def boolean(self, variable, value):
        if value is None:
            return False
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        self.wrong(variable, value, "true or false")
        return False

    def word(self, variable, value, pattern=_WORD, rule=_WORD_RULE):
        if value is None or value == "":
            return None
        if not isinstance(value, str) or not pattern.match(value):
            self.wrong(variable, value, rule)
            return None
        return value


def integer(value):
    """Return a whole number that may be text, as Jinja without native types hands it over, or None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and _INTEGER.match(value.strip()):
        return int(value)
    return None


def _integer_rule(minimum):
    return "a whole number" if minimum is None else f"a whole number, {minimum} or more"


def normalise_site(deployment, site, entries, limits=None):
    """Check what an operator wrote for one site; return it with every default filled in.

    Returns {"deployment", "site", "limits": {queued, total, per_cycle: int or None}, "entries": {name: entry}}
    with entry = {"name", "queue", "account", "constraint", "walltime_s", "shapes", "limits", "array", "accept",
    "accept_requirements", "rank", "resources", "directives", "attributes", "environment", "modules", "scratch",
    "granted", "site_resource", "gpu_discovery", "cvmfs", "job_setup", "job_environment", "image", "retirement_s",
    "idle_timeout_s", "idle_after_job_s", "lost_s", "log_mb", "fast_failures", "fast_failure_s", "checks": {name:
    arguments as text}, "require_checks": [name], "check_period_s", "priority", "weight"}; array: most tasks of an array
    job, None for any number; modules, scratch: None where the site's apply; granted, ..., image: None or empty where
    nothing was said; idle_timeout_s, idle_after_job_s: None where the shape decides (the functions of these names).
    Limits have cores and gpus where they are given. Raises InputError.
    """
    check = _Checker()
    for variable, value in (("glidein_deployment", deployment), ("glidein_site", site)):
        if not is_name(value):
            check.wrong(variable, value, NAME_RULE)
    site_limits = _limits(check, "glidein_limits", limits, {})
    site_array = _array(check, "glidein_limits", limits)
    entries = check.mapping("glidein_entries", entries)
    if not entries and not check.problems:
        check.missing("glidein_entries", "at least one entry")
    result = {}
    for name in entries:
        variable = f"glidein_entries.{name}"
        if not is_name(name):
            check.wrong(f"name of {variable}", name, NAME_RULE)
        result[name] = _entry(check, variable, name, entries[name])
        result[name]["array"] = min(filter(None, (result[name]["array"], site_array)), default=None)
    if check.problems:
        raise InputError(check.problems)
    return {"deployment": deployment, "site": site, "limits": site_limits, "entries": result}


def shape_names(entries):
    """Return {entry: names of its shapes} of `glidein_entries`, in the operator's order. Raises InputError."""
    site = normalise_site("glidein", "site", entries)
    return {name: list(entry["shapes"]) for name, entry in site["entries"].items()}


def _entry(check, variable, name, raw):
    raw = check.mapping(variable, raw, ENTRY_KEYS)
    walltime_s = check.duration(f"{variable}.walltime", raw.get("walltime"), 60, required=True)
    # A default must not refuse a short walltime.
    default_retirement_s = DEFAULT_RETIREMENT_S if walltime_s is None else min(DEFAULT_RETIREMENT_S, walltime_s // 4)
    retirement_s = check.duration(f"{variable}.retirement", raw.get("retirement"), 0, default_retirement_s)
    granted = _granted(check, f"{variable}.granted", raw.get("granted"))
    checks = _checks(check, f"{variable}.checks", raw.get("checks"))
    if walltime_s is not None and retirement_s >= walltime_s:
        check.wrong(f"{variable}.retirement", raw.get("retirement"), f"less than the walltime ({walltime_s} s)")
    return {
        "name": name,
        "queue": check.word(f"{variable}.queue", raw.get("queue")),
        "account": check.word(f"{variable}.account", raw.get("account")),
        "constraint": check.word(f"{variable}.constraint", raw.get("constraint"), _CONSTRAINT, _CONSTRAINT_RULE),
        "walltime_s": walltime_s,
        "shapes": {
            key: _with_min_disk(check, f"{variable}.shapes.{key}", shape, granted)
            for key, shape in _shapes_with_overhead(check, variable, raw).items()
        },
        "limits": _limits(check, f"{variable}.limits", raw.get("limits"), DEFAULT_LIMITS),
        "array": _array(check, f"{variable}.limits", raw.get("limits")),
        "accept": _accept_of_kind(check, variable, raw, _accept(check, f"{variable}.accept", raw.get("accept"))),
        "accept_requirements": _expression(check, f"{variable}.accept_requirements", raw.get("accept_requirements")),
        "rank": _expression(check, f"{variable}.rank", raw.get("rank"), "TARGET.RequestMemory"),
        "resources": _resources(check, f"{variable}.resources", raw.get("resources")),
        "directives": _directives(check, f"{variable}.directives", raw.get("directives")),
        "attributes": _attributes(check, f"{variable}.attributes", raw.get("attributes")),
        "environment": check_environment(check.wrong, f"{variable}.environment", raw.get("environment")),
        "modules": check_modules(check.wrong, f"{variable}.modules", raw.get("modules")),
        "scratch": _scratch(check, f"{variable}.scratch", raw.get("scratch")),
        "granted": granted,
        "site_resource": _name(check, f"{variable}.site_resource", raw.get("site_resource")),
        "gpu_discovery": check.word(
            f"{variable}.gpu_discovery",
            raw.get("gpu_discovery"),
            _DISCOVERY,
            "arguments of condor_gpu_discovery such as -extra: letters, digits, blanks and , : . _ -",
        ),
        "cvmfs": _repositories(check, f"{variable}.cvmfs", raw.get("cvmfs")),
        "job_setup": check.word(
            f"{variable}.job_setup",
            raw.get("job_setup"),
            _NODE_PATH,
            "an absolute path of letters, digits, blanks and /._,+@%=~-",
        ),
        "job_environment": check_environment(
            check.wrong, f"{variable}.job_environment", raw.get("job_environment"), ours=("_CONDOR_",)
        ),
        "image": check.word(
            f"{variable}.image", raw.get("image"), _IMAGE, "a path or address: letters, digits and / . _ : @ + -"
        ),
        "retirement_s": retirement_s,
        "idle_timeout_s": check.duration(f"{variable}.idle_timeout", raw.get("idle_timeout"), 1),
        "idle_after_job_s": check.duration(f"{variable}.idle_after_job", raw.get("idle_after_job"), 1),
        "lost_s": check.duration(f"{variable}.lost_timeout", raw.get("lost_timeout"), 0, DEFAULT_LOST_S),
        "log_mb": check.integer(f"{variable}.log_mb", raw.get("log_mb"), 1, DEFAULT_LOG_MB),
        "fast_failures": check.integer(f"{variable}.fast_failures", raw.get("fast_failures"), 0, DEFAULT_FAST_FAILURES),
        "fast_failure_s": check.duration(
            f"{variable}.fast_failure_time", raw.get("fast_failure_time"), 1, DEFAULT_FAST_FAILURE_S
        ),
        "checks": checks,
        "require_checks": _required(check, f"{variable}.require_checks", raw.get("require_checks"), checks),
        "check_period_s": check.duration(
            f"{variable}.check_period", raw.get("check_period"), 10, DEFAULT_CHECK_PERIOD_S
        ),
        "priority": check.integer(f"{variable}.priority", raw.get("priority"), default=0),
        "weight": check.integer(f"{variable}.weight", raw.get("weight"), 1, 1),
    }


def _shapes_with_overhead(check, variable, raw):
    """Return the shapes of an entry, each with `memory_mb` that jobs are offered, and `asked_memory_mb` that the batch
    system is asked for.

    The difference is what the glidein itself needs. A shape's memory is what jobs are offered. Where it is the most
    that can be asked for (of a whole node, of parts of a node, and where memory comes with cores), that much is asked
    for, and jobs are offered less.
    """
    per_core_mb = check.integer(f"{variable}.memory_per_core_mb", raw.get("memory_per_core_mb"), 1)
    stated_mb = check.integer(f"{variable}.memory_overhead_mb", raw.get("memory_overhead_mb"), 0)
    parts = raw.get("node") is not None
    found = {}
    for name, shape in _shapes_or_ladder(check, variable, raw, per_core_mb).items():
        shape = with_enough_cores(shape, per_core_mb)
        if None in (shape["memory_mb"], shape["cpus"]):
            found[name] = dict(shape, asked_memory_mb=None)
            continue
        overhead_mb = stated_mb
        if overhead_mb is None:
            overhead_mb = MEMORY_OVERHEAD_MB + MEMORY_OVERHEAD_PER_CPU_MB * shape["cpus"]
        if not (parts or per_core_mb or shape["whole_node"]):
            found[name] = dict(shape, asked_memory_mb=shape["memory_mb"] + overhead_mb)
        elif shape["memory_mb"] > overhead_mb:
            found[name] = dict(shape, memory_mb=shape["memory_mb"] - overhead_mb, asked_memory_mb=shape["memory_mb"])
        elif not found or not parts:
            where = f"{variable}.node" if parts else f"{variable}.shapes.{name}"
            check.wrong(
                f"{where}.memory_mb",
                shape["memory_mb"],
                f"more than the {overhead_mb} MB that the glidein itself needs (memory_overhead_mb)",
            )
            found[name] = dict(shape, asked_memory_mb=shape["memory_mb"])
    return found


def _with_min_disk(check, variable, shape, granted):
    """Return a shape with `min_disk_mb`: the least of its disk with which a glidein goes on."""
    disk_mb, min_disk_mb = shape["disk_mb"], shape["min_disk_mb"]
    if disk_mb is None:
        return shape
    if min_disk_mb is None:
        takes_what_is_there = shape["whole_node"] or granted == "auto"
        return dict(shape, min_disk_mb=min(disk_mb, LEAST_DISK_MB) if takes_what_is_there else disk_mb)
    if min_disk_mb > disk_mb:
        check.wrong(f"{variable}.min_disk_mb", min_disk_mb, f"at most disk_mb ({disk_mb})")
    return shape


def _shapes_or_ladder(check, variable, raw, per_core_mb):
    """Return the shapes that are given, or those that are made of `node`, the most that a glidein may ask for."""
    if raw.get("node") is None:
        return _shapes(check, f"{variable}.shapes", raw.get("shapes"), per_core_mb)
    if raw.get("shapes") is not None:
        check.wrong(f"{variable}.node", raw["node"], "only without shapes, which are made of it then")
    return ladder(_shape(check, f"{variable}.node", raw["node"]))


def ladder(node):
    """Return the whole, half, quarter ... of a node as shapes, rounded down; down to one core, and to one GPU if it
    has any.

    Of a node that is given as a whole only (whole_node) there are no parts: each of them would take a whole one, too.
    """
    shapes = {}
    if None in (node["cpus"], node["memory_mb"], node["disk_mb"]):
        return shapes
    for step, name in enumerate(LADDER[:1] if node["whole_node"] else LADDER):
        part = {key: node[key] >> step for key in RESOURCES}
        if node["min_disk_mb"] is not None:
            part["min_disk_mb"] = node["min_disk_mb"] >> step
        if not (part["cpus"] and part["memory_mb"] and part["disk_mb"]) or (node["gpus"] and not part["gpus"]):
            break
        shapes[name] = dict(node, **part)
    return shapes


def _shapes(check, variable, raw, per_core_mb):
    raw = check.mapping(variable, raw)
    if not raw:
        check.missing(variable, "at least one shape, such as {core: {cpus: 1, memory_mb: 2000, disk_mb: 10000}}")
    shapes = {}
    for name in raw:
        if not is_name(name):
            check.wrong(f"name of {variable}.{name}", name, NAME_RULE)
        sizes = _sizes(check, f"{variable}.{name}", name, raw[name], per_core_mb)
        for size in sizes:
            if size in shapes or (size != name and size in raw):
                check.wrong(f"{variable}.{name}", raw[name], f"a name with which no two shapes are called {size}")
            elif is_name(name) and not is_name(size):
                check.wrong(f"name of {variable}.{name}", name, f"a shorter one: a size of it is called {size}")
        shapes.update(sizes)
    return shapes


def _sizes(check, variable, name, raw, per_core_mb):
    """Return {name: shape}: the shape itself, or the sizes that its ranges stand for.

    A range, {min, max}, stands for min, twice that, and so on, and max; several ranges stand for all combinations. The
    names are made of the sizes: a batch job's name leads to its shape as long as the ranges include the size.
    """
    ranges = [key for key in RESOURCES if isinstance(raw, dict) and isinstance(raw.get(key), dict)]
    if not ranges:
        return {name: _shape(check, variable, raw)}
    known = len(check.problems)
    steps = [_steps(check, f"{variable}.{key}", raw[key], 0 if key == "gpus" else 1) for key in ranges]
    largest = _shape(check, variable, dict(raw, **{key: values[-1] for key, values in zip(ranges, steps)}))
    if largest["whole_node"]:
        check.wrong(f"{variable}.whole_node", True, "false in a shape with ranges, as a whole node has one size")
    number = 1
    for values in steps:
        number *= len(values)
    if number > SIZES_MOST:
        rule = (
            f"ranges of at most {SIZES_MOST} sizes (these have {number}): narrower ones, or one number for a resource"
        )
        check.wrong(variable, raw, rule)
    if len(check.problems) > known:
        return {name: largest}
    sizes = {}
    for size in itertools.product(*steps):
        shape = with_enough_cores(dict(largest, **dict(zip(ranges, size))), per_core_mb)
        if not shape["gpus"]:
            shape["gpu_type"] = None
        sizes["-".join([str(name)] + [f"{shape[key]}{_SIZE_UNITS[key]}" for key in ranges])] = shape
    return sizes


def _steps(check, variable, raw, least):
    """Return the numbers from min to max of a range, each at most twice the one before."""
    raw = check.mapping(variable, raw, ("min", "max"))
    low = check.integer(f"{variable}.min", raw.get("min"), least, required=True)
    high = check.integer(f"{variable}.max", raw.get("max"), least, required=True)
    if low is None or high is None:
        return [1]
    if low > high:
        check.wrong(variable, raw, "a min that is not above the max")
    steps = [low]
    while steps[-1] < high:
        steps.append(min(high, max(1, 2 * steps[-1])))
    return steps


def _shape(check, variable, raw):
    raw = check.mapping(variable, raw, SHAPE_KEYS)
    shape = {
        "cpus": check.integer(f"{variable}.cpus", raw.get("cpus"), 1, required=True),
        "memory_mb": check.integer(f"{variable}.memory_mb", raw.get("memory_mb"), 1, required=True),
        "disk_mb": check.integer(f"{variable}.disk_mb", raw.get("disk_mb"), 1, required=True),
        "min_disk_mb": check.integer(f"{variable}.min_disk_mb", raw.get("min_disk_mb"), 0),
        "gpus": check.integer(f"{variable}.gpus", raw.get("gpus"), 0, default=0),
        "gpu_type": check.word(f"{variable}.gpu_type", raw.get("gpu_type")),
        "whole_node": check.boolean(f"{variable}.whole_node", raw.get("whole_node")),
    }
    if shape["gpu_type"] and not shape["gpus"]:
        check.wrong(f"{variable}.gpu_type", shape["gpu_type"], "only in a shape with gpus of 1 or more")
    return shape


def idle_timeout_s(entry, shape):
    """Return after how many seconds without a job a glidein of this shape ends."""
    if entry["idle_timeout_s"] is not None:
        return entry["idle_timeout_s"]
    return WHOLE_NODE_IDLE_TIMEOUT_S if shape["whole_node"] else DEFAULT_IDLE_TIMEOUT_S


def idle_after_job_s(entry, shape):
    """Return after how many seconds without a job a glidein of this shape ends that has run one."""
    if entry["idle_after_job_s"] is not None:
        return entry["idle_after_job_s"]
    # Who says how long glideins stay idle means all of them.
    timeout_s = idle_timeout_s(entry, shape)
    return timeout_s if entry["idle_timeout_s"] is not None else min(DEFAULT_IDLE_AFTER_JOB_S, timeout_s)


def lasts_s(entry):
    """Return after how many seconds a glidein of an entry stops by itself: before the batch system would do it.

    The same as TO_DIE in plan_times of files/glidein/lib/settings.sh.
    """
    return entry["walltime_s"] - min(LONGEST_MARGIN_S, entry["walltime_s"] // 10)


def longest_job_s(entry):
    """Return how many seconds a job may say that it runs, for a new glidein of an entry to be ordered for it."""
    lasts = lasts_s(entry)
    return lasts - min(LONGEST_START_S, lasts // 10)


def with_enough_cores(shape, per_core_mb):
    """Return a shape as a site gives it that hands out memory by the core: more cores rather than more memory.

    per_core_mb: MiB that come with each core; None: the shape stays as it is. What the shape has then is what the
    glidein gets.
    """
    if per_core_mb is None or shape["memory_mb"] is None or shape["cpus"] is None:
        return shape
    cpus = max(shape["cpus"], -(-shape["memory_mb"] // per_core_mb))
    return dict(shape, cpus=cpus, memory_mb=cpus * per_core_mb)


def _array(check, variable, raw):
    return check.integer(f"{variable}.array", raw.get("array"), 1) if isinstance(raw, dict) else None


def _resources(check, variable, raw):
    raw = check.mapping(variable, raw, RESOURCE_KEYS)
    found = {key: check.word(f"{variable}.{key}", raw[key]) for key in raw}
    return {key: word for key, word in found.items() if word is not None}


def _scratch(check, variable, raw):
    if raw is None:
        return None
    try:
        scratch_word(raw if isinstance(raw, str) else "")
    except ValueError:
        check.wrong(variable, raw, SCRATCH_RULE)
    return raw


def _granted(check, variable, raw):
    if raw is None or raw in GRANTED:
        return raw
    check.wrong(variable, raw, " or ".join(GRANTED))
    return None


def _name(check, variable, raw):
    if raw is None or is_name(raw):
        return raw
    check.wrong(variable, raw, NAME_RULE)
    return None


def _repositories(check, variable, raw):
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(name, str) and _REPOSITORY.match(name) for name in raw):
        check.wrong(variable, raw, "a list of names of repositories, such as [icecube.opensciencegrid.org]")
        return []
    return list(raw)


def check_environment(wrong, variable, raw, ours=("GLIDEIN_", "_CONDOR_", "CONDOR_")):
    """Return the environment of a batch job, {name: text}; wrong(variable, value, rule) is told of mistakes.

    ours: how names begin that are not the operator's to set.
    """
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        wrong(variable, raw, "a mapping of environment variables")
        return {}
    result = {}
    for name, value in raw.items():
        if not isinstance(name, str) or not _ATTRIBUTE.match(name):
            wrong(f"name of {variable}.{name}", name, "the name of an environment variable")
        elif name.startswith(ours):
            wrong(
                f"name of {variable}.{name}", name, f"any name but {', '.join(x + '...' for x in ours)}, which are ours"
            )
        elif isinstance(value, bool) or not isinstance(value, (str, int, float)):
            wrong(f"{variable}.{name}", value, "text or a number")
        elif _CONTROL.search(str(value)):
            wrong(f"{variable}.{name}", value, "text without line breaks or control characters")
        else:
            result[name] = str(value)
    return result


def _checks(check, variable, raw):
    """Return {name: arguments} of a mapping, or of a list of names."""
    if isinstance(raw, list):
        raw = {name if isinstance(name, str) else repr(name): None for name in raw}
    raw = check.mapping(variable, raw)
    found = {}
    for name in raw:
        arguments = "" if raw[name] is None else raw[name]
        if not isinstance(name, str) or not _ATTRIBUTE.match(name):
            check.wrong(f"name of {variable}.{name}", name, "the file name of a check: letters, digits and underscores")
        elif not isinstance(arguments, str) or (arguments and not _CHECK_ARGUMENTS.match(arguments)):
            check.wrong(f"{variable}.{name}", arguments, _CHECK_ARGUMENTS_RULE)
        else:
            found[name] = arguments
    return found


def _required(check, variable, raw, checks):
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(name, str) and name in checks for name in raw):
        check.wrong(variable, raw, "a list of names that are in checks, too")
        return []
    return list(raw)


def check_modules(wrong, variable, raw):
    """Return the names of environment modules to load, or None; wrong(variable, value, rule) is told of mistakes."""
    if raw is None:
        return None
    if not isinstance(raw, list) or not all(isinstance(name, str) and _MODULE.match(name) for name in raw):
        wrong(variable, raw, _MODULE_RULE)
        return None
    return list(raw)


def _limits(check, variable, raw, defaults):
    raw = check.mapping(variable, raw, LIMITS + RESOURCE_LIMITS + ("array",))
    keys = LIMITS + tuple(key for key in RESOURCE_LIMITS if raw.get(key) is not None)
    return {key: check.integer(f"{variable}.{key}", raw.get(key), 0, defaults.get(key)) for key in keys}


def _accept(check, variable, raw):
    raw = check.mapping(variable, raw, RESOURCES)
    accept = {}
    for resource in RESOURCES:
        if resource not in raw:
            continue
        name = f"{variable}.{resource}"
        bounds = check.mapping(name, raw[resource], ("min", "max"))
        low = check.integer(f"{name}.min", bounds.get("min"), 0)
        high = check.integer(f"{name}.max", bounds.get("max"), 0)
        if low is not None and high is not None and low > high:
            check.wrong(name, raw[resource], "a min that is not above the max")
        accept[resource] = {"min": low, "max": high}
    return accept


def _accept_of_kind(check, variable, raw, accept):
    """Return `accept` with the bounds that cpu_only and gpu_only stand for."""
    cpu_only = check.boolean(f"{variable}.cpu_only", raw.get("cpu_only"))
    gpu_only = check.boolean(f"{variable}.gpu_only", raw.get("gpu_only"))
    if not cpu_only and not gpu_only:
        return accept
    bounds = accept.get("gpus", {"min": None, "max": None})
    if cpu_only and (gpu_only or (bounds["min"] or 0) > 0):
        check.wrong(f"{variable}.cpu_only", raw["cpu_only"], "true only without gpu_only and without accept.gpus.min")
    if gpu_only and bounds["max"] == 0:
        check.wrong(f"{variable}.gpu_only", raw["gpu_only"], "true only without an accept.gpus.max of 0")
    bounds = {"min": bounds["min"], "max": 0} if cpu_only else {"min": max(1, bounds["min"] or 0), "max": bounds["max"]}
    return dict(accept, gpus=bounds)


def _expression(check, variable, raw, example='TARGET.Owner == "alice"'):
    if raw is None or raw == "":
        return None
    text = raw.replace("\n", " ") if isinstance(raw, str) else ""
    if not text.strip() or len(text) > _EXPRESSION_MOST or _CONTROL.search(text) or _MACRO.search(text):
        check.wrong(variable, raw, f"a ClassAd expression without $(...), such as {example}")
        return None
    return text.strip()


def _directives(check, variable, raw):
    if raw is None:
        return []
    if not isinstance(raw, list):
        check.wrong(variable, raw, "a list of options of the batch system, such as ['-C EGRESS']")
        return []
    for number, directive in enumerate(raw):
        if not isinstance(directive, str) or not directive.strip() or _CONTROL.search(directive):
            check.wrong(f"{variable}[{number}]", directive, "one option of the batch system: text without a line break")
    return list(raw)


def _attributes(check, variable, raw):
    raw = check.mapping(variable, raw)
    for name in raw:
        where = f"{variable}.{name}"
        value = raw[name]
        if not isinstance(name, str) or not _ATTRIBUTE.match(name):
            check.wrong(f"name of {where}", name, "a ClassAd attribute name: letters, digits and underscores")
        elif _OWN_ATTRIBUTE.match(name):
            check.wrong(f"name of {where}", name, "any name but is_glidein and GLIDEIN_..., which are ours")
        if isinstance(value, str):
            if _CONTROL.search(value) or _MACRO.search(value):
                check.wrong(where, value, "text without line breaks, control characters or $(...)")
        elif not isinstance(value, (bool, int, float)) or not math.isfinite(value):
            check.wrong(where, value, "text, a number, true or false")
    return dict(raw)


# Resource -> what a job asks for as START sees it, and how many of its units are one of `accept`.
_REQUESTS = {
    "cpus": ("(TARGET.RequestCpus ?: 1)", 1),
    "memory_mb": ("(TARGET.RequestMemory ?: 0)", 1),
    "disk_mb": ("(TARGET.RequestDisk ?: 0)", 1024),
    "gpus": ("(TARGET.RequestGPUs ?: 0)", 1),
}


def start_expression(entry):
    """Return the ClassAd expression that a job must fulfil for a glidein of the entry to start it, or "" for any job.

    It is true for the jobs that the plan orders glideins for, by `accept` and `accept_requirements`. Fractions of a
    unit count as one, as in the plan.
    """
    conditions = []
    for resource in RESOURCES:
        bounds = entry["accept"].get(resource, {"min": None, "max": None})
        request, unit = _REQUESTS[resource]
        if bounds["min"]:
            conditions.append(f"{request} > {(bounds['min'] - 1) * unit}")
        if bounds["max"] is not None:
            conditions.append(f"{request} <= {bounds['max'] * unit}")
    if entry["accept_requirements"]:
        conditions.append(f"({entry['accept_requirements']})" if conditions else entry["accept_requirements"])
    return " && ".join(conditions)


def classad_literal(value):
    """Return a text, number or truth value as a ClassAd literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
