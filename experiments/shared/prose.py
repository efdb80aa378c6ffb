"""Lines of Markdown that templates wrote, wrapped; tables, code, headings and pictures stay as they are."""

from __future__ import annotations

import re
import textwrap

WIDTH = 120
BLOCK = re.compile(r"[|#<!]|    |```")
ITEM = re.compile(r"[-*] |\d+\. ")
KEPT = re.compile(r"`[^`\n]+`| (?=(?:[-+*#>=|]|\d+[.)])(?: |$))")
"""Code in a line, and a space before a word that would begin a list or the like: no line may break there."""
GLUE = "\ue000"


def wrapped(page: str) -> str:
    return "".join(_paragraph(part) for part in re.split(r"(\n\n+)", page.rstrip("\n"))) + "\n"


def _paragraph(part: str) -> str:
    if not part.strip() or BLOCK.match(part):
        return part
    lines: list[str] = []
    for line in part.split("\n"):
        if lines and not _mark(line):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return "\n".join(_filled(line) for line in lines)


def _filled(line: str) -> str:
    indent = " " * len(_mark(line))
    glued = KEPT.sub(lambda found: found.group().replace(" ", GLUE), line)
    filled = textwrap.fill(glued, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return filled.replace(GLUE, " ")


def _mark(line: str) -> str:
    """That begins an item of a list, if it does."""
    found = ITEM.match(line)
    return found.group() if found else ""
