"""How many tests of source distributions can be lowered to comparisons by a trusted side, and why the others cannot.

    pip download --no-binary :all: --no-deps -d SDISTS toolz funcy voluptuous humanize boltons cachetools schema \
        simpleeval sqlparse itsdangerous xmltodict
    python benchmarks/lowering.py SDISTS/*.tar.gz [--json benchmarks/results/lowering.json] [--verbose]

Static: no test runs. A test is a function or method whose name starts with `test`, in a file whose name says test.
"""

from __future__ import annotations

import argparse
import ast
import json
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from composer_replication.environments.code.grading.lowering import lower
from composer_replication.environments.code.grading.lowering.merging import merged
from composer_replication.syntax import parse


def python_files(source: Path) -> dict[str, str]:
    with tarfile.open(source) as archive:
        members = [member for member in archive.getmembers() if member.isfile() and member.name.endswith(".py")]
        found = {member.name.partition("/")[2]: archive.extractfile(member) for member in members}
        return {path: content.read().decode("utf-8", "replace") for path, content in found.items() if content}


def is_test_file(path: str) -> bool:
    return Path(path).name.startswith("test") or Path(path).stem.endswith("test") or "/tests/" in f"/{path}"


def test_names(path: str, text: str, files: dict[str, str]) -> set[str]:
    """Inherited ones included, of classes that pytest would collect."""
    tree = merged(path, parse(text), files)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    own = {
        node.name
        for node in parse(text).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)} & own

    def methods(name: str) -> set[str]:
        node = classes.get(name)
        if node is None:
            return set()
        mine = {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
        return mine.union(*(methods(base.id) for base in node.bases if isinstance(base, ast.Name)))

    def is_case(name: str) -> bool:
        bases = [ast.unparse(base) for base in classes[name].bases] if name in classes else []
        return name.endswith("TestCase") or any(is_case(base) for base in bases)

    collected = [name for name in classes if name in own and (name.startswith("Test") or is_case(name))]
    found |= {f"{name}::{method}" for name in collected for method in methods(name)}
    return {name for name in found if name.rpartition("::")[2].startswith("test")}


def measured(source: Path, verbose: bool) -> dict[str, Any]:
    files = python_files(source)
    tests_only = {path: text for path, text in files.items() if is_test_file(path)}
    reasons: Counter[str] = Counter()
    lowered, exposed, tests, checks = 0, 0, 0, 0
    began = time.process_time()
    for path, text in sorted(files.items()):
        if path not in tests_only:
            continue
        names = test_names(path, text, tests_only)
        found = lower(path, text, names, (), others=tests_only)
        tests += len(names)
        lowered += len(found.functions)
        exposed += len(found.exposed)
        checks += len(found.checks)
        reasons.update(found.left.values())
        if verbose:
            for test, reason in sorted(found.left.items()):
                print(f"    {path}::{test}: {reason}")
            for test in sorted(found.exposed):
                print(f"    {path}::{test}: exposed")
    asking = tests - reasons["no comparison"]
    return {
        "source": source.name,
        "tests": tests,
        "with_comparison": asking,
        "lowered": lowered,
        "share": round(lowered / max(1, asking), 4),
        "share_of_all": round(lowered / max(1, tests), 4),
        "exposed": exposed,
        "checks": checks,
        "left": dict(reasons.most_common()),
        "cpu_s": round(time.process_time() - began, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true", help="name every test that is left or exposed")
    options = parser.parse_args()
    rows = [measured(source, options.verbose) for source in options.sources]
    keys = ("tests", "with_comparison", "lowered", "exposed", "checks")
    total: dict[str, Any] = {key: sum(row[key] for row in rows) for key in keys}
    total["share"] = round(total["lowered"] / max(1, total["with_comparison"]), 4)
    total["share_of_all"] = round(total["lowered"] / max(1, total["tests"]), 4)
    left: Counter[str] = Counter()
    for row in rows:
        left.update(row["left"])
        print(json.dumps(row))
    total["left"] = dict(left.most_common())
    print(json.dumps(total, indent=1))
    if options.json:
        options.json.write_text(json.dumps({"repositories": rows, "all": total}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
