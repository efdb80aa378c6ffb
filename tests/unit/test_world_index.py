"""Copies of a solution outside the tree: what an agent could read in the packages around it."""

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from composer_replication.environments.code.certificates import world_index as indexing
from composer_replication.environments.code.certificates import world_scan
from composer_replication.environments.code.certificates.leaks import leak_certificate
from composer_replication.environments.code.certificates.world_index import read_index
from composer_replication.environments.code.sandbox import toolchain
from composer_replication.environments.code.tasks.task import Symbol

SOLUTION = textwrap.dedent('''
    def spans_of(values, limit):
        """Runs of values that stay below a limit."""
        found = []
        start = None
        for place, value in enumerate(values):
            if value < limit and start is None:
                start = place
            elif value >= limit and start is not None:
                found.append((start, place))
                start = None
        if start is not None:
            found.append((start, len(values)))
        return sorted(found, key=lambda span: span[1] - span[0])
''').lstrip()
BODY = SOLUTION[SOLUTION.index("    found = []") :]
RENAMED = (
    SOLUTION.replace("spans_of", "runs")
    .replace("found", "result")
    .replace("value", "item")
    .replace("start", "first")
    .replace("Runs of", "What")
)
REFORMATTED = SOLUTION.replace(
    "(start, place)", "(\n                    start,\n                    place\n                )"
)
OTHER = textwrap.dedent("""
    def spans_of(text):
        return [match.span() for match in re.finditer(r"[a-z]+", text) if match.group(0) not in KNOWN]


    class Reader:
        def rows(self, source):
            for line in source:
                if line.startswith("#"):
                    continue
                yield [part.strip() for part in line.split(",")]
""")


def index_over(folder: Path):
    scan = [sys.executable, "-I", world_scan.__file__, str(folder)]
    return read_index(subprocess.run(scan, capture_output=True, check=True).stdout)


def copies(tmp_path, text, body=BODY, name="spans_of"):
    (tmp_path / "package" / "_vendor").mkdir(parents=True)
    (tmp_path / "package" / "_vendor" / "spans.py").write_text(text)
    return list(index_over(tmp_path).near_copies({name: body}))


@pytest.mark.parametrize(
    "text", [SOLUTION, RENAMED, REFORMATTED, "import os\n\n\n" + textwrap.indent(SOLUTION, "    ")]
)
def test_a_vendored_copy_is_found_whatever_its_names_and_lines(tmp_path, text):
    (found,) = copies(tmp_path, text)
    assert found.file.endswith("_vendor/spans.py") and found.certain and found.share >= 0.8


def test_an_edited_copy_under_the_same_name_is_found(tmp_path):
    edited = SOLUTION.replace("return sorted(found, key=lambda span: span[1] - span[0])", "return found")
    edited = edited.replace("        if value < limit and", "        log(value)\n        if value < limit and")
    (found,) = copies(tmp_path, edited)
    assert found.certain


def test_other_code_of_the_same_name_is_no_copy(tmp_path):
    assert copies(tmp_path, OTHER) == []
    assert index_over(tmp_path).defines("spans_of") == [str(tmp_path / "package" / "_vendor" / "spans.py")]


def test_short_functions_are_found_by_their_name(tmp_path):
    short = "    total = sum(sides)\n    return total * 2 if total > 0 else checked(sides)\n"
    assert copies(tmp_path, f"def perimeter(sides):\n{short}", short, "perimeter")[0].certain
    shutil.rmtree(tmp_path / "package")
    assert copies(tmp_path, f"def elsewhere(sides):\n{short}", short, "perimeter") == []


def test_archives_are_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "bundle.whl", "w") as archive:
        archive.writestr("spans.py", SOLUTION)
    (found,) = index_over(tmp_path).near_copies({"spans_of": BODY})
    assert found.file.endswith("bundle.whl/spans.py")


@pytest.fixture
def tools_with_a_copy(tmp_path, monkeypatch):
    """The toolchain with one package more, and only that package searched: the rest takes seconds."""
    tools = toolchain(["pytest"])
    folder = tmp_path / "tools"
    shutil.copytree(
        tools.folder, folder, symlinks=True, copy_function=os.link if _same_disk(tmp_path) else shutil.copy2
    )
    site = next((folder / "lib").glob("python3.*/site-packages"))
    (site / "plugin" / "_vendor").mkdir(parents=True)
    (site / "plugin" / "_vendor" / "copied.py").write_text(SOLUTION)
    inside = f"/toolchain/{site.relative_to(folder)}/plugin"
    for parent in (tmp_path, *(each for each in tmp_path.parents if each.name.startswith(("pytest-", "popen-")))):
        parent.chmod(0o755)  # else the folder is copied for the user of the sandbox
    monkeypatch.setattr(indexing, "_roots", lambda backend: (inside,))
    monkeypatch.setattr(indexing, "cache_folder", lambda: tmp_path)
    return replace(tools, folder=folder)


def _same_disk(folder: Path) -> bool:
    return folder.stat().st_dev == toolchain(["pytest"]).folder.stat().st_dev


def test_a_copy_in_a_package_of_the_toolchain_fails_the_certificate(tmp_path, tools_with_a_copy):
    tree = tmp_path / "tree"
    (tree / "small").mkdir(parents=True)
    (tree / "small" / "spans.py").write_text(SOLUTION.replace(BODY, "    raise NotImplementedError\n"))
    known = {"deleted": {"small/spans.py": SOLUTION}, "symbols": (Symbol(file="small/spans.py", name="spans_of"),)}
    assert leak_certificate(tree, **known).passed
    found = leak_certificate(tree, **known, toolchain=tools_with_a_copy)
    assert [(each.check, each.path.rpartition("/plugin/")[2]) for each in found.hard()] == [
        ("world", "_vendor/copied.py")
    ]
    assert len(list(tmp_path.glob("world-*.index"))) == 1, "kept for the next process"
