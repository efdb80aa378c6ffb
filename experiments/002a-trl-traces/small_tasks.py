"""Five code tasks of one line each, as `recompose env make` would write them, for policies that can do very little."""

import json
from pathlib import Path
from typing import NamedTuple

from composer_replication.environments.code.tasks.task import CodeTask, Symbol, TaskFolder
from composer_replication.records import Task

PACKAGE = "shop"


class Fault(NamedTuple):
    name: str
    signature: str
    wrong: str
    right: str
    cases: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"{PACKAGE}/{self.name}.py"

    def source(self, line: str) -> str:
        return f"def {self.name}({self.signature}):\n    {line}\n"

    @property
    def statement(self) -> str:
        return f"Mend `{self.name}` in {self.file}."


FAULTS = (
    Fault("total", "price, count", "return price + count", "return price * count",
          ("total(3, 4) == 12", "total(5, 0) == 0")),
    Fault("change", "paid, price", "return price - paid", "return paid - price",
          ("change(9, 4) == 5", "change(4, 4) == 0")),
    Fault("cheapest", "prices", "return max(prices)", "return min(prices)",
          ("cheapest([3, 1]) == 1", "cheapest([2]) == 2")),
    Fault("label", "name", "return name.lower()", "return name.upper()",
          ("label('tea') == 'TEA'", "label('X') == 'X'")),
    Fault("first", "names", "return names[-1]", "return names[0]",
          ("first(['a', 'b']) == 'a'", "first(['c']) == 'c'")),
)  # fmt: skip


def write_small_tasks(folder: Path) -> list[TaskFolder]:
    """One folder per task, with a hidden test per case and a guard that passes before and after."""
    return [_write(folder / fault.name, fault) for fault in FAULTS]


def _write(folder: Path, fault: Fault) -> TaskFolder:
    hidden_file, guard_file = f"tests/test_{fault.name}.py", "tests/test_shop.py"
    hidden = "".join(f"def test_{number}():\n    assert {case}\n\n\n" for number, case in enumerate(fault.cases))
    code_task = CodeTask(
        task=Task(
            task_id=f"shop-{fault.name}",
            kind="bug_injection",
            statement=fault.statement,
            visible_hash="0",
            hidden_hash="0",
        ),
        repository=PACKAGE,
        generator="bug_injection",
        mode="stub",
        level="L0",
        symbols=(Symbol(file=fault.file, name=fault.name),),
        packages=(PACKAGE,),
        source_roots=(".",),
        test_files=(hidden_file, guard_file),
        hidden_tests=tuple(f"{hidden_file}::test_{number}" for number in range(len(fault.cases))),
        guard_tests=(f"{guard_file}::test_import",),
        editable=(f"{PACKAGE}/*",),
        seconds_per_run=0.1,
    )
    guard = f"def test_import():\n    import {PACKAGE}.{fault.name}\n"
    task = TaskFolder(code_task, folder)
    _files(task.tree, {f"{PACKAGE}/__init__.py": "", fault.file: fault.source(fault.wrong), guard_file: guard})
    imports = f"from {PACKAGE}.{fault.name} import {fault.name}\n\n\n"
    _files(task.overlay, {hidden_file: imports + hidden, guard_file: guard})
    _files(task.gold, {fault.file: fault.source(fault.right)})
    (folder / "task.json").write_text(json.dumps(code_task.model_dump(mode="json")), encoding="utf-8")
    return task


def _files(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
