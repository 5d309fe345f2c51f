# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the terminal output in docs/pictures: each NAME.txt, which was recorded in the lab, becomes NAME.svg.

Run it in the environment of the tests: python3 tests/prepare.py exec python tests/pictures.py
"""

import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
TITLES = {
    "demo": "make demo: from an idle job to its output",
    "status": "glidein.ops.status: demand, and the glideins of each site",
    "explain": "glidein.ops.explain: why a job waits",
}
# Without the fonts that rich loads from the network: each line has its length, so that any monospace font fits.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
STYLES = (
    (r"^\$ .*", "bold green"),
    (r"^\[ *\d+\.\d s\]", "cyan"),
    (r"(?<=\] )\$ .*", "bold green"),
    (r"^ *[A-Z]{3}[A-Z ]{3,}$", "bold yellow"),
    (r"^ *SITE +ENTRY .*", "bold"),
)


def draw(name, recorded):
    """Return the SVG of recorded terminal output."""
    lines = recorded.rstrip("\n").split("\n")
    console = Console(
        record=True, file=io.StringIO(), width=max(map(len, lines)) + 1, force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        text = Text(line)
        for pattern, style in STYLES:
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=True)
    svg = console.export_svg(title=TITLES[name], code_format=FORMAT, unique_id=name)
    svg = svg.replace("<style>", f"<title>{TITLES[name]}</title>\n    <style>", 1)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main():
    """Draw all pictures."""
    for name in TITLES:
        recorded = (PICTURES / f"{name}.txt").read_text(encoding="utf-8")
        (PICTURES / f"{name}.svg").write_text(draw(name, recorded), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
