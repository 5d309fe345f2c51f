# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Sphinx configuration of the documentation site, which tests/checks/docs_site.py builds in .build/docs."""

import re
from fnmatch import fnmatch

from docutils import nodes

project = "glidein.ops"
author = "the glidein.ops authors"
project_copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
root_doc = "index"
language = "en"
nitpicky = True
# The build reads nothing from the network: ANSIBLE has the few labels of Ansible's documentation that pages refer to.
intersphinx_mapping = {}

# As on the forge: an anchor for each heading, and no language for a code block that names none.
myst_heading_anchors = 4
highlight_language = "none"

html_theme = "furo"
html_title = "glidein.ops"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# The colours of antsibull-docs' tables, for both of the theme's modes.
antsibull_ext_color_scheme = "none"
TABLES = {
    "antsibull-table-background-header": "var(--color-background-secondary)",
    "antsibull-table-background-even": "var(--color-background-primary)",
    "antsibull-table-background-odd": "var(--color-background-secondary)",
    "antsibull-table-border": "var(--color-background-border)",
    "antsibull-narrowtable-background": "var(--color-background-secondary)",
    "antsibull-links-background": "var(--color-brand-primary)",
    "antsibull-links-background-active": "var(--color-brand-content)",
    "antsibull-links-focus-outline": "var(--color-foreground-border)",
    "antsibull-links-text": "var(--color-background-primary)",
    "antsibull-option-sample-header": "inherit",
    "antsibull-attribute-support-na": "inherit",
    "antsibull-deprecation-border": "var(--color-foreground-border)",
    "antsibull-deprecation-background": "var(--color-background-secondary)",
    "antsibull-deprecation-color": "inherit",
}
OPTIONS = {
    "antsibull-option-type": ("#7a007a", "#f0a0f0"),
    "antsibull-option-elements": ("#7a007a", "#f0a0f0"),
    "antsibull-option-required": ("#b00020", "#ff8f8f"),
    "antsibull-option-version-added": ("#006400", "#71d471"),
    "antsibull-option-aliases": ("#006400", "#71d471"),
    "antsibull-option-default": ("#0033b3", "#b3b8ff"),
    "antsibull-option-sample": ("#0033b3", "#b3b8ff"),
    "antsibull-attribute-support-none": ("#b00020", "#ff8f8f"),
    "antsibull-attribute-support-partial": ("#7a5c00", "#d6c25a"),
    "antsibull-attribute-support-full": ("#006400", "#71d471"),
}
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {**TABLES, **{name: colours[0] for name, colours in OPTIONS.items()}},
    "dark_css_variables": {name: colours[1] for name, colours in OPTIONS.items()},
}

ANSIBLE = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
ANSIBLE_PLUGIN = re.compile(r"ansible_collections\.(ansible)\.(builtin)\.(\w+_[a-z]+)")
ANSIBLE_URL = "https://docs.ansible.com/ansible/latest"

LISTED = re.compile(r"^.+ <([\w/.-]+)>$", re.MULTILINE)
PATTERN = re.compile(r"[\w/.-]*\*[\w/.-]*")
MODULE_FILE = re.compile(r"\]\((?:\.\./)+plugins/modules/(\w+)\.py\)")
# The theme has a table of contents of its own beside each page.
CONTENTS = re.compile(r"^\.\. contents::\n(?: +:.*\n)*", re.MULTILINE)
COLLECTION_TITLE = re.compile(r"^Glidein\.Ops\n=+$", re.MULTILINE)
REFERENCE = "Modules, plugins and roles"
ROLE_README = re.compile(r"roles/(\w+)/README")


def expand(text, pages):
    """Replace each pattern in the table of contents by the pages that match it and are not listed elsewhere."""
    lines = text.split("\n")
    left = sorted(set(pages) - set(lines) - {match[1] for match in LISTED.finditer(text)} - {root_doc})
    expanded = []
    for line in lines:
        if PATTERN.fullmatch(line):
            found = [page for page in left if fnmatch(page, line) and page.count("/") == line.count("/")]
            left = [page for page in left if page not in found]
            expanded += found
        else:
            expanded.append(line)
    return "\n".join(expanded)


def adapt(app, docname, source):
    """Expand the table of contents, and link to the site's pages of modules and roles instead of their files."""
    if docname == root_doc:
        source[0] = expand(source[0], app.env.found_docs)
    if docname.startswith("collection/"):
        source[0] = CONTENTS.sub("", source[0])
        source[0] = COLLECTION_TITLE.sub(f"{REFERENCE}\n{'=' * len(REFERENCE)}", source[0])
    source[0] = MODULE_FILE.sub(r"](#ansible_collections.glidein.ops.\1_module)", source[0])
    role = ROLE_README.fullmatch(docname)
    if role:
        label = f"ansible_collections.glidein.ops.{role[1]}_role"
        title, rest = source[0].split("\n", 1)
        source[0] = f"{title}\n\n[All options of the role](#{label}), with types and defaults.\n{rest}"


def ansible_reference(_app, _env, node, content):
    """Return a link to Ansible's documentation for one of its labels or environment variables; None for others."""
    label = node.get("reftarget", "")
    plugin = ANSIBLE_PLUGIN.match(label)
    page = "collections/{}/{}/{}.html".format(*plugin.groups()) if plugin else ANSIBLE.get(label)
    if node.get("reftype") == "envvar" and label.startswith("ANSIBLE_"):
        page = f"{ANSIBLE['ansible_configuration_settings']}#envvar-{label}"
    if not page:
        return None
    return nodes.reference("", "", content, internal=False, refuri=f"{ANSIBLE_URL}/{page}")


def setup(app):
    """Register the changes of the pages' text, and the links to Ansible's documentation."""
    app.connect("source-read", adapt)
    app.connect("missing-reference", ansible_reference)
