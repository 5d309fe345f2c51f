# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A build of the documentation site in .build/docs/html with antsibull-docs and Sphinx, with a check of its links.

The sources are the project's Markdown files, the pages that antsibull-docs writes about each module, plugin and role of
the installed collection, and docs/site. These count as errors: a warning of Sphinx, an internal link whose page or
anchor does not exist, and a page that no link reaches from the first one.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prepare  # noqa: E402  (tests/ is no package)

BUILD = prepare.BUILD / "docs"
SOURCE, HTML = BUILD / "source", BUILD / "html"
SITE = "docs/site"
NO_PAGES = (f"{SITE}/", ".github/", "changelogs/", "tests/", "files/demand_server/src/")
# Pages of Sphinx without content of their own.
GENERATED = {"genindex.html", "search.html"}
# A link to a file that is no page: the site offers it for download.
FILE_LINK = re.compile(r"\]\(([^)\s:#]+\.(?:sh|yml|json|py))\)")
ANTSIBULL_DOCS = [
    *("antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"),
    *("--no-add-antsibull-docs-version", "--dest-dir", str(SOURCE / "collection"), "glidein.ops"),
]
SPHINX = [
    *(sys.executable, "-m", "sphinx", "--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"),
    *("--jobs", "auto", "--builder", "html", str(SOURCE), str(HTML)),
]


def page_sources():
    """Return the project's files that belong to the site, relative to the checkout: pages, pictures, linked files."""
    names = [name for name in prepare.sources() if not name.startswith(NO_PAGES)]
    pages = [name for name in names if name.endswith(".md")]
    wanted = {name for name in names if name.startswith("docs/pictures/")} | set(pages)
    for page in pages:
        folder = (prepare.ROOT / page).parent
        for target in FILE_LINK.findall((prepare.ROOT / page).read_text(encoding="utf-8")):
            path = (folder / target).resolve()
            if path.is_file() and prepare.ROOT in path.parents:
                wanted.add(str(path.relative_to(prepare.ROOT)))
    return sorted(wanted)


def assemble():
    """Write the sources of the site in .build/docs/source."""
    shutil.rmtree(BUILD, ignore_errors=True)
    prepare.copy(page_sources(), SOURCE)
    shutil.copytree(prepare.ROOT / SITE, SOURCE, dirs_exist_ok=True)
    (SOURCE / "collection").mkdir()


class Page(HTMLParser):
    """The links, the pictures and the anchors of an HTML page."""

    def __init__(self, path):
        """Parse the file `path`."""
        super().__init__()
        self.links = set()
        self.anchors = {"", "top"}
        self.without_text = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Collect what a tag refers to, and its own name."""
        attributes = dict(attrs)
        self.anchors.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        for key in ("href", "src", "data"):
            if attributes.get(key) and tag in ("a", "img", "link", "script", "object"):
                self.links.add(attributes[key])
        if tag == "img" and not attributes.get("alt"):
            self.without_text.append(attributes.get("src"))


def problems(html):
    """Return a line for each defect: a link without target, a page that no link reaches, a picture without text."""
    pages = {str(path.relative_to(html)): Page(path) for path in sorted(html.rglob("*.html"))}
    found, reached, todo = [], {"index.html"}, ["index.html"]
    targets = {}
    for name, page in pages.items():
        found += [f"{name}: the picture {source} has no text" for source in page.without_text]
        targets[name] = set()
        for link in page.links:
            url, fragment = urldefrag(link)
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = unquote(urljoin(name, parts.path)) if parts.path else name
            if target in pages:
                targets[name].add(target)
                if unquote(fragment) not in pages[target].anchors:
                    found.append(f"{name}: {link}: {target} has no anchor {fragment!r}")
            elif not (html / target).is_file():
                found.append(f"{name}: {link}: there is no such page or file")
    while todo:
        new = targets[todo.pop()] - reached
        reached |= new
        todo += new
    found += [f"{name}: no link leads there" for name in sorted(set(pages) - reached - GENERATED)]
    return found


def run(command, **variables):
    """Run a command of .venv; exit with its status if it fails."""
    env = dict(prepare.environment(), **variables)
    status = subprocess.run(command, cwd=BUILD, env=env, check=False).returncode
    if status:
        sys.exit(status)


def main():
    """Build and check the site; return 0 if there is no problem."""
    assemble()
    # Ansible derives the name of a role's collection from the first `ansible_collections` in its path, which may be
    # that of the checkout. So the collection is copied out of it.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / prepare.COLLECTION.relative_to(prepare.COLLECTIONS)
        shutil.copytree(prepare.COLLECTION, copy)
        run(ANTSIBULL_DOCS, ANSIBLE_COLLECTIONS_PATH=folder)
    run(SPHINX)
    found = problems(HTML)
    for line in found:
        print(line)
    print(f"{len(list(HTML.rglob('*.html')))} pages; the first one is {HTML / 'index.html'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
