"""Who imports whom: the rule as data, and how it is read off the sources. `python -m tests.structure.layers` prints it.

The tests of `test_layers.py` hold the sources to these tables, and CONTRIBUTING's table is made from them.
"""

import ast
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import composer_replication

ROOT = Path(composer_replication.__file__).parent
PACKAGE = "composer_replication"
FOUNDATION = (
    "records", "errors", "progress", "special_functions", "syntax", "sections", "objective", "config", "settings",
    "store", "parallel", "origin", "runs", "windows",
)  # fmt: skip
MAY_IMPORT = {
    "records": (),
    "errors": (),
    "progress": (),
    "special_functions": (),
    "syntax": (),
    "sections": ("errors",),
    "objective": ("records", "sections"),
    "config": ("records", "errors", "sections", "objective"),
    "settings": ("errors", "sections", "objective", "config"),
    "store": (),
    "parallel": ("errors",),
    "origin": (),
    "runs": ("records", "errors", "objective", "config", "store", "origin"),
    "windows": ("records",),
    "redaction": FOUNDATION,
    "ingestion": (*FOUNDATION, "redaction"),
    "llm": (*FOUNDATION, "redaction"),
    "sites": (*FOUNDATION, "ingestion", "llm"),
    "hints": (*FOUNDATION, "ingestion", "sites", "llm"),
    "replay": (*FOUNDATION, "ingestion", "sites", "hints", "llm"),
    "pairs": (*FOUNDATION, "ingestion", "sites", "hints", "replay"),
    "losses": (),
    "environments": (*FOUNDATION, "llm"),
    "monitor": (*FOUNDATION, "environments"),
    "training": (*FOUNDATION, "losses", "sites", "hints", "pairs", "environments", "monitor"),
    "evaluation": (
        *FOUNDATION, "ingestion", "sites", "hints", "replay", "pairs", "llm", "losses", "environments", "monitor",
        "training",
    ),
    "stages": (
        *FOUNDATION, "redaction", "ingestion", "sites", "hints", "replay", "pairs", "llm", "environments", "monitor",
        "training", "evaluation",
    ),
    "viewer": (*FOUNDATION, "redaction", "ingestion", "llm", "pairs", "evaluation"),
}  # fmt: skip
ABOVE = ("pipeline", "cli", "__main__", "__init__")
"""May import everything."""
NAMED_ENVIRONMENTS = ("toolbox", "code", "openenv", "verifiers", "harbor", "foreign")
NAMES_ENVIRONMENTS = (
    "cli/env.py", "cli/env_rollout.py", "cli/env_serve.py", "cli/env_task.py", "cli/quickstart.py", "cli/doctor.py",
)  # fmt: skip
"""The verbs that make and serve code tasks, and the one that looks at their sandbox. Nothing else knows an environment
by its name."""


@cache
def modules():
    return sorted(path for path in ROOT.rglob("*.py") if "sample_repository" not in path.parts)


def dotted(path):
    """`training.rollouts.worker`; of a package its own name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {dotted(path) for path in modules()}


@cache
def imports(path):
    """Modules of ours that a module imports, at any depth of its code."""
    own, found = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*own[: len(own) - node.level], *([node.module] if node.module else [])] if node.level else []
            source = ".".join(base) if node.level else (node.module or "")
            names = [f"{source}.{alias.name}" for alias in node.names]
        rests = [name.removeprefix(PACKAGE).removeprefix(".") for name in names if name.split(".")[0] == PACKAGE]
        found += [rest if rest in KNOWN else rest.rpartition(".")[0] for rest in rests]
    return found


def head(module):
    """The first-level package or module; of the package itself `__init__`."""
    return module.partition(".")[0] or "__init__"


def children_graph():
    """For every package: which of its children imports which other one, by any module inside."""
    graph = defaultdict(lambda: defaultdict(set))
    for path in modules():
        source = dotted(path).split(".")
        if path.name == "__init__.py":
            continue  # a package that shows names of its children is not used by them
        for name in imports(path):
            target = name.split(".")
            common = 0
            while common < min(len(source), len(target)) and source[common] == target[common]:
                common += 1
            if common < len(source) and common < len(target):
                graph[".".join(source[:common])][source[common]].add(target[common])
    return graph


def cycle_in(edges):
    """One cycle of a graph, or nothing."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return None
        path.append(node)
        for other in sorted(edges.get(node, ())):
            if found := visit(other):
                return found
        done.add(path.pop())
        return None

    for node in sorted(edges):
        if found := visit(node):
            return found
    return None


def table():
    """CONTRIBUTING's table of layers."""
    rows = ["| Package | May import |", "|---|---|"]
    for name, allowed in MAY_IMPORT.items():
        others = [other for other in allowed if other not in FOUNDATION or name in FOUNDATION]
        told = ", ".join(f"`{other}`" for other in others) or ("nothing of ours" if name != "redaction" else "")
        rows.append(f"| `{name}` | {'the foundation' if name not in FOUNDATION and allowed else ''}"
                    f"{', ' if others and allowed and name not in FOUNDATION else ''}{told} |")  # fmt: skip
    return "\n".join(rows)


def matrix():
    """Rows import columns; the number is how many modules do."""
    counts = defaultdict(lambda: defaultdict(int))
    for path in modules():
        source = head(dotted(path))
        for target in {head(name) for name in imports(path)} - {source}:
            counts[source][target] += 1
        for target in {name.split(".")[1] for name in imports(path) if name.startswith("environments.")}:
            if target in NAMED_ENVIRONMENTS and source != "environments":
                counts[source][f"={target}"] += 1
    columns = [name for name in MAY_IMPORT if name not in FOUNDATION] + [f"={name}" for name in NAMED_ENVIRONMENTS]
    width = max(map(len, columns)) + 1
    lines = [" " * 14 + "".join(f"{name:>{width}}" for name in columns)]
    for name in [*MAY_IMPORT, *ABOVE[:2]]:
        if name not in FOUNDATION:
            cells = "".join(f"{counts[name][column] or '·':>{width}}" for column in columns)
            lines.append(f"{name:<14}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write((table() if "--table" in sys.argv else matrix()) + "\n")
