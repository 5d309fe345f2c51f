# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transforms of a gateway: named changes of pilots before or after their route.

Sources: the manual's pages of the job router and of ClassAd transforms; tests with 23.9.6.
"""

import math
import re

from ansible_collections.glidein.ops.plugins.module_utils.classad_syntax import CONTROL, MACRO, expression
from ansible_collections.glidein.ops.plugins.module_utils.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.validation import ANYTHING, Spec, Type, choice, invalid

VARIABLE = "glidein_gateway_transforms"
NAME = re.compile(r"^[a-z][a-z0-9_]{0,30}\Z")
NAME_RULE = "a name of lower case letters, digits and underscores, which begins with a letter"
# blahp passes such texts to a shell without quotes.
WORD = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.,:/=+@%-]*\Z")
WORD_RULE = "letters, digits and _ . , : / = + @ % -"
ATTRIBUTE_RULE = "the name of a job attribute: letters, digits and underscores"

_ATTRIBUTE = re.compile(r"^(?!(?:true|false|undefined|error|is|isnt|my|target|parent)\Z)[a-z_][a-z0-9_]{0,63}\Z", re.I)
# A route sets these, and checks the pilot's values.
_OF_ROUTES = {
    "batchqueue": "queues",
    "batchproject": "account",
    "batchextrasubmitargs": "directives",
    "gridresource": "batch_system",
}
# HTCondor itself sets these.
_OF_HTCONDOR = re.compile(
    r"^(?:owner|user|osuser|jobuniverse|jobstatus|clusterid|procid|globaljobid|managed|managedmanager|routename"
    r"|routed.*|authtoken.*|submitter.*)\Z",
    re.I,
)
_EXPRESSION = expression("MY.maxWallTime * 2")


def is_attribute(name):
    """Return whether a value is a valid name of a job attribute."""
    return isinstance(name, str) and bool(_ATTRIBUTE.match(name))


def _delete(value):
    if not isinstance(value, list):
        raise ValueError(value)
    return list(value)


# The commands of a transform, in the order in which they are applied.
_COMMANDS = {"default": "DEFAULT", "set": "SET", "set_expression": "SET", "evaluate": "EVALSET"}
_TRANSFORM = Spec(
    dict(
        {key: {"type": ANYTHING, "default": {}} for key in _COMMANDS},
        stage={"type": choice("pre", "post"), "required": True},
        requirements={"type": expression('MY.VO is "icecube"')},
        delete={"type": Type("a list of names of attributes", _delete), "default": []},
    )
)


def transform_config(problems, transforms):
    """Return lines of HTCondor's configuration with the transforms, in their order; append errors to `problems`.

    transforms: glidein_gateway_transforms, {name: transform}.
    """
    if not isinstance(transforms, dict):
        problems.append(invalid(VARIABLE, transforms, "a mapping of names to transforms"))
        return []
    stages, lines = {"pre": [], "post": []}, []
    for name, transform in transforms.items():
        if not isinstance(name, str) or not NAME.match(name):
            problems.append(invalid(VARIABLE, name, NAME_RULE))
            continue
        before = len(problems)
        checked = _TRANSFORM.check(problems, f"{VARIABLE}.{name}", transform)
        body = _body(problems, f"{VARIABLE}.{name}", checked)
        if len(problems) == before:
            stages[checked["stage"]].append(name)
            lines += [f"JOB_ROUTER_TRANSFORM_{name} @=transform", *(f"  {line}" for line in body), "@transform"]
    names = [f"JOB_ROUTER_{stage.upper()}_ROUTE_TRANSFORM_NAMES = {' '.join(stages[stage])}" for stage in stages]
    return [*[line for line in names if not line.endswith("= ")], *lines]


def _body(problems, where, transform):
    """Return the lines of a transform; append errors to `problems`."""
    lines = [f"REQUIREMENTS {transform['requirements']}"] if transform["requirements"] else []
    for key, command in _COMMANDS.items():
        values = transform[key]
        if values is not None and not isinstance(values, dict):
            problems.append(invalid(f"{where}.{key}", values, "a mapping of attributes to values"))
            continue
        for attribute, value in (values or {}).items():
            path = f"{where}.{key}"
            if _may_change(problems, path, attribute):
                rendered = _rendered(problems, f"{path}.{attribute}", attribute, key, value)
                lines.append(f"{command} {attribute} {rendered}")
    for attribute in transform["delete"] or []:
        if _may_change(problems, f"{where}.delete", attribute):
            lines.append(f"DELETE {attribute}")
    return lines


def _may_change(problems, where, attribute):
    """Return whether a transform may change an attribute; append the error to `problems` if not."""
    if not is_attribute(attribute):
        problems.append(invalid(where, attribute, ATTRIBUTE_RULE))
        return False
    key = _OF_ROUTES.get(attribute.lower())
    if key:
        problems.append(invalid(where, attribute, f"an attribute that no route sets: use {key} of the route"))
    elif _OF_HTCONDOR.match(attribute):
        problems.append(invalid(where, attribute, "an attribute that HTCondor does not set itself"))
    else:
        return True
    return False


def _rendered(problems, where, attribute, key, value):
    """Return the value of an attribute as it is in a transform; append the error to `problems` if it is invalid."""
    if key in ("default", "set"):
        return _literal(problems, where, attribute, value)
    if attribute.lower() == "queue":
        problems.append(invalid(where, value, "no expression for this attribute: use set or default"))
        return None
    try:
        found = _EXPRESSION(value)
        if found is not None:
            return found
    except ValueError:
        pass
    problems.append(invalid(where, value, _EXPRESSION.expected))
    return None


def _literal(problems, where, attribute, value):
    if attribute.lower() == "queue" and not (isinstance(value, str) and WORD.match(value)):
        problems.append(invalid(where, value, f"the name of a queue: {WORD_RULE}"))
    elif isinstance(value, str):
        if not CONTROL.search(value) and not MACRO.search(value):
            return classad_literal(value)
        problems.append(invalid(where, value, "text without line breaks, control characters or $(...)"))
    elif isinstance(value, (bool, int, float)) and math.isfinite(value):
        return classad_literal(value)
    else:
        problems.append(invalid(where, value, "text, a number, true or false"))
    return None
