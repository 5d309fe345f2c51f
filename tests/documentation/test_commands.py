# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the commands in README and docs use existing names, options, variables and tags.

The end-to-end tests run the playbooks. Here, the parsers of the commands read the pages' text.
"""

import argparse
import ast
import contextlib
import importlib
import io
import json
import re
import sys

import pytest
import yaml

import documents
from documents import ROOT

PREFIX = "glidein.ops."
PLAYBOOKS = {path.stem: path for path in sorted((ROOT / "playbooks").glob("*.yml"))}
ROLES = {path.name for path in (ROOT / "roles").iterdir()}
MODULES = {path.stem: path for path in (ROOT / "plugins/modules").glob("*.py")}
PLUGINS = {
    path.stem for kind in ("filter", "lookup", "inventory", "callback") for path in (ROOT / "plugins" / kind).glob("*")
}
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
FIRST_WORD = re.compile(r"glidein\.ops\.(\w+)( -.*)?$")


def tasks_of(path):
    """Return the text of a playbook, of its imports and includes, and of the roles that it names."""
    todo, done, texts = [path], set(), []
    while todo:
        path = todo.pop()
        if path in done or not path.is_file():
            continue
        done.add(path)
        text = path.read_text(encoding="utf-8")
        texts.append(text)
        for name in re.findall(r"(?:import_playbook|include_tasks|import_tasks): *([\w./-]+\.yml)", text):
            todo.append(path.parent / name)
        for role in re.findall(r"glidein\.ops\.(\w+)", text):
            if role in ROLES:
                todo += (ROOT / "roles" / role).rglob("*.yml")
    return "\n".join(texts)


TEXTS = {name: tasks_of(path) for name, path in PLAYBOOKS.items()}


def tags_of(name):
    """Return the tags in the tasks of a playbook."""
    text = TEXTS[name]
    listed = re.findall(r"^ *(?:- )?tags: *(.+)$", text, re.MULTILINE)
    nested = re.findall(r"^ *tags:\n((?: *- .+\n)+)", text, re.MULTILINE)
    return set(IDENTIFIER.findall(" ".join(listed + nested))) | {"all", "always", "never", "tagged", "untagged"}


def extra_variables(values):
    """Return the names that the values of --extra-vars set. Raise ValueError if they are invalid."""
    names = set()
    for value in values or []:
        if value.startswith("@"):
            continue
        if value.startswith("{"):
            names |= set(json.loads(value))
        else:
            for word in value.split():
                name, equals, _value = word.partition("=")
                if not equals:
                    raise ValueError(f"{word!r} is invalid; expected name=value")
                names.add(name)
    return names


def parse(module, name, arguments):
    """Parse the arguments as one of Ansible's programs does; raise ValueError if they are invalid."""
    program = getattr(importlib.import_module(f"ansible.cli.{module}"), name)([module, *arguments])
    program.init_parser()
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            return program.parser.parse_args(arguments)
        except SystemExit:
            raise ValueError(errors.getvalue().strip().splitlines()[-1]) from None


def playbook_error(arguments):
    """Return the error in the arguments of ansible-playbook, or None."""
    try:
        options = parse("playbook", "PlaybookCLI", arguments)
        given = extra_variables(options.extra_vars)
    except ValueError as error:
        return str(error)
    for playbook in options.args:
        name = playbook.removeprefix(PREFIX)
        if not playbook.startswith(PREFIX) or name not in PLAYBOOKS:
            return f"the playbook {playbook} does not exist"
        unread = given - set(IDENTIFIER.findall(TEXTS[name])) - KNOWN
        if unread:
            return f"{playbook} does not read {', '.join(sorted(unread))}"
        tags = {tag for text in [*options.tags, *options.skip_tags] for tag in text.split(",")} - {"all", "NAME"}
        if tags - tags_of(name):
            return f"{playbook} has no tag {', '.join(sorted(tags - tags_of(name)))}"
    return None


def known_variables():
    """Return the inventory variables of the collection."""
    path = ROOT / "plugins/module_utils/controller/variables.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "VARIABLES":
            return {key.value for key in node.value.keys}
    raise AssertionError(f"{path} has no VARIABLES")


KNOWN = known_variables()


def wrong(found, error_of):
    """Return a line for each invalid call; assert that there are calls."""
    assert found
    texts = [(place, arguments, error_of(arguments)) for place, arguments in found]
    return [f"{place}: {' '.join(arguments)}: {error}" for place, arguments, error in texts if error]


def test_each_ansible_playbook_command_has_a_playbook_with_its_options_variables_and_tags():
    assert wrong(documents.calls("ansible-playbook"), playbook_error) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-i", "INVENTORY", "glidein.ops.deply"], "the playbook glidein.ops.deply does not exist"),
        (["-i", "INVENTORY", "glidein.ops.deploy", "--chekc"], "unrecognized arguments: --chekc"),
        (
            ["-i", "INVENTORY", "glidein.ops.drain", "-e", "drain_entri=RM"],
            "glidein.ops.drain does not read drain_entri",
        ),
        (["-i", "INVENTORY", "glidein.ops.drain", "-e", '{"drain_entri": 1}'], "does not read drain_entri"),
        (["-i", "INVENTORY", "glidein.ops.drain", "-e", "drain_entry"], "is invalid; expected name=value"),
        (["-i", "INVENTORY", "glidein.ops.deploy", "--tags", "poool"], "glidein.ops.deploy has no tag poool"),
        (["-i", "INVENTORY"], "the following arguments are required: playbook"),
    ],
)
def test_wrong_commands_are_found(arguments, expected):
    assert expected in playbook_error(arguments)


def test_playbooks_that_are_named_with_options_have_these():
    """Check `glidein.ops.deploy --check`, and `deploy --tags NAME`."""
    found = []
    for code in documents.all_code():
        match = FIRST_WORD.match(code.text) or re.match(r"(\w+)( --?\w.*)$", code.text)
        if match and match[1] in PLAYBOOKS and match[2]:
            for arguments in documents.commands(
                code._replace(text=f"ansible-playbook {PREFIX}{match[1]}{match[2]}"), "ansible-playbook"
            ):
                found.append((code.place, arguments))
    assert wrong(found, playbook_error) == []


@pytest.mark.parametrize(
    ("program", "module", "name"),
    [
        ("ansible-galaxy", "galaxy", "GalaxyCLI"),
        ("ansible-inventory", "inventory", "InventoryCLI"),
        ("ansible-doc", "doc", "DocCLI"),
    ],
)
def test_the_options_of_other_programs_of_ansible_exist(program, module, name):
    def error(arguments):
        try:
            parse(module, name, arguments)
        except ValueError as problem:
            return str(problem)
        return None

    assert wrong(documents.calls(program), error) == []


def test_ad_hoc_commands_name_a_module_and_its_options():
    def error(arguments):
        try:
            options = parse("adhoc", "AdHocCLI", arguments)
        except ValueError as problem:
            return str(problem)
        name = options.module_name.removeprefix(PREFIX)
        if name not in MODULES:
            return f"the module {options.module_name} does not exist"
        documented = yaml.safe_load(
            re.search(r'DOCUMENTATION = r?"""(.*?)"""', MODULES[name].read_text(), re.DOTALL)[1]
        )
        unknown = set(re.findall(r"(\w+)=", options.module_args or "")) - set(documented.get("options", {}))
        return f"no option {', '.join(sorted(unknown))}" if unknown else None

    found = [(place, arguments) for place, arguments in documents.calls("ansible") if "-m" in arguments]
    assert wrong(found, error) == []


def test_each_name_of_the_collection_exists():
    names = {*PLAYBOOKS, *ROLES, *MODULES, *PLUGINS}
    found = [
        (place, name)
        for place, text in documents.pages().items()
        for name in re.findall(r"(?<![\w.])glidein\.ops\.([a-z]\w*)", text)
    ]
    assert len(found) > 100
    assert sorted({f"{place}: glidein.ops.{name}" for place, name in found if name not in names}) == []


def test_each_playbook_is_documented():
    text = "\n".join(documents.pages().values())
    assert [name for name in PLAYBOOKS if f"{PREFIX}{name}" not in text] == []


def test_each_make_target_and_bench_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    benches = {path.stem for path in (ROOT / "tests/bench").glob("*.py")}

    def error(arguments):
        for word in arguments:
            name, equals, value = word.partition("=")
            if not equals and name not in targets:
                return f"no target {name}"
            if equals and name not in re.findall(r"[A-Z]+", makefile):
                return f"no variable {name}"
            if name == "BENCH" and set(value.split()) - benches - {"NAME"}:
                return f"no bench {value}"
        return None

    assert wrong(documents.calls("make"), error) == []


def test_each_part_of_the_tests_exists():
    sys.path.insert(0, str(ROOT / "tests"))
    run = importlib.import_module("run")

    def error(arguments):
        names = [word for word in arguments if not word.startswith("-")]
        try:
            run.select(names)
        except KeyError as unknown:
            return f"no part or group {unknown}"
        return None

    assert wrong(documents.calls("tests/run.py") + documents.calls("run.py"), error) == []


def glidein_demand():
    """Return the parser of the command glidein-demand, whose other modules are not installed here."""
    source = (ROOT / "files/demand_server/src/glidein_demand/cli.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    wanted = [node for node in functions if node.name in ("_Parser", "_parser", "_command")]
    future = ast.parse("from __future__ import annotations").body
    space = {node.name: None for node in functions}
    space.update(argparse=argparse, __version__="", DEFAULT_CONFIG="")
    exec(compile(ast.Module(body=[*future, *wanted], type_ignores=[]), "cli.py", "exec"), space)  # noqa: S102
    return space["_parser"]()


def test_each_subcommand_of_glidein_demand_exists():
    parser = glidein_demand()

    def error(arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            try:
                parser.parse_args(arguments)
            except SystemExit as ended:
                # `glidein-demand token` in a sentence names the command without its action.
                incomplete = "arguments are required" in errors.getvalue()
                return errors.getvalue().strip() if ended.code and not incomplete else None
        return None

    assert wrong(documents.calls("glidein-demand"), error) == []


def test_each_path_of_the_project_exists():
    """Check code spans and words of commands that begin with a directory of the project."""
    folders = ("docs", "extensions", "files", "inventories", "meta", "playbooks", "plugins", "roles", "tests")
    path = re.compile(rf"(?<![\w./~:{{-])(?:{'|'.join(folders)})/[\w./*-]+")
    found, missing = 0, []
    for code in documents.all_code():
        for name in path.findall(code.text):
            name = name.rstrip("./")
            if "NAME" in name or "NNNN" in name:
                continue
            found += 1
            base = code.place.split(":")[0].rsplit("/", 1)[0] if "/" in code.place.split(":")[0] else "."
            if not any(
                list(folder.glob(name))
                for folder in (ROOT, ROOT / base, ROOT / "files/demand_server/src/glidein_demand")
            ):
                missing.append(f"{code.place}: {name}")
    assert found > 50
    assert missing == []
