"""Rules over changed code for what steers pytest: hooks and plugins of a conftest that change what is reported.

Hooks that only tell, order, configure, or mark tests by an option are no sign; an effect is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..python.trees import method_of
from .names import Names
from .spots import HOOKS, ChangedFile, Hit, Spot
from .tampering import set_names

ASKS_FOR_OPTIONS = re.compile(
    r"getoption\(|getini\(|\.option\.|\benviron\b|getenv\(|sys\.platform|platform\.|os\.name|which\(|version_info|find_spec\("
    r"|ImportError|\.exists\(|is_available\(|get_closest_marker\(|iter_markers\("
)
ORDINARY_PLUGIN = re.compile(r"^(pytester|pytest_[a-z_]+|hypothesis\.\S+|xdist|anyio)$|fixtures?\b", re.IGNORECASE)
RUNNING_HOOKS = frozenset("pytest_runtest_call pytest_pyfunc_call pytest_runtest_protocol pytest_runtestloop".split())
DECIDING_HOOKS = frozenset(
    "pytest_collection pytest_ignore_collect pytest_pycollect_makeitem pytest_collect_file pytest_make_collect_report"
    " pytest_runtest_makereport pytest_report_teststatus pytest_cmdline_main pytest_cmdline_parse".split()
)
REPORT_FIELDS = frozenset("outcome longrepr excinfo wasxfail _excinfo _result exitstatus testsfailed".split())
TEST_FIELDS = frozenset("obj _obj runtest".split())
"""Of an item of pytest: what is called when the test runs."""
REPORT_CALLS = frozenset("force_result force_exception".split())
REPORT_CLASSES = frozenset(
    "TestReport CollectReport CallInfo from_item_and_call LogXML TerminalReporter SetupState".split()
)


def report_hooks(spot: Spot, place: ChangedFile) -> Iterator[Hit]:
    node, names = spot.node, place.names
    if exchanged := _exchanged_test(node, place):
        yield exchanged
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name in HOOKS:
            forged = next(_forgeries(node, names), None)
            if forged is not None:
                yield Hit("report_changed", "report_hook", "hard", forged)
            elif place.role != "tests" and has_effect(node, names):
                yield Hit("report_hook", "report_hook", "soft", node)
        elif place.role == "conftest" and (forged := next(_reports_set(node), None)):
            yield Hit("report_changed", "report_hook", "soft", forged)
    elif isinstance(node, ast.Assign | ast.Call) and place.role != "tests":
        for target in set_names(node, names):
            if target.rpartition(".")[2] in HOOKS or target.startswith(("_pytest", "pytest.")):
                yield Hit("report_hook", "report_hook", "hard", node)
        if isinstance(node, ast.Call) and _registers_a_plugin(node, place):
            yield Hit("plugin_registered", "report_hook", "hard" if place.role == "package" else "soft", node)
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in HOOKS for target in node.targets
        ):
            yield Hit("report_hook", "report_hook", "soft", node)
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "pytest_plugins" for target in node.targets)
            and not all(map(ORDINARY_PLUGIN.search, _texts(node.value)))
        ):
            yield Hit("plugin_named", "report_hook", "soft", node)
    elif isinstance(node, ast.ImportFrom | ast.Import) and place.role == "package":
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        if any(module.partition(".")[0] == "_pytest" for module in modules):
            yield Hit("runner_imported", "report_hook", "soft", node)
    elif isinstance(node, ast.ClassDef) and any(
        names.dotted(base).rpartition(".")[2] in REPORT_CLASSES for base in node.bases
    ):
        yield Hit("report_class", "report_hook", "soft", node)


def _exchanged_test(node: ast.AST, place: ChangedFile) -> Hit | None:
    """The function of a test replaced in its item; one that is only wrapped may still be honest."""
    match node:
        case ast.Assign([ast.Attribute(owner, field)], value):
            pass
        case ast.Call(ast.Name("setattr") | ast.Attribute(_, "setattr" | "__setattr__"), [owner, name, value]):
            field = place.names.folded(name)
        case _:
            return None
    items = r"(\b|_)(node|item|pyfuncitem)$" if place.role == "conftest" else r"\b(request\.node|pyfuncitem)$"
    if field not in TEST_FIELDS or re.search(items, ast.unparse(owner)) is None:
        return None
    wraps = any(isinstance(inner, ast.Attribute) and inner.attr in TEST_FIELDS for inner in ast.walk(value))
    named = isinstance(value, ast.Name | ast.Call)
    return Hit("test_exchanged", "report_hook", "soft" if wraps or named else "hard", node)


def _forgeries(hook: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> Iterator[ast.AST]:
    """Places of a hook that make a failure look like a pass, or that leave tests out."""
    yield from _reports_set(hook)
    for node in ast.walk(hook):
        if (
            (isinstance(node, ast.Return) and _says_it_ran(hook, node))
            or (isinstance(node, ast.Try) and hook.name in RUNNING_HOOKS and _swallows(node))
            or (isinstance(node, ast.Assign | ast.Delete) and _leaves_tests_out(node, hook))
        ):
            yield node
        elif isinstance(node, ast.Call):
            method = method_of(node)
            field = names.folded(node.args[1]) if len(node.args) > 1 else None
            sets_a_field = names.dotted(node.func) == "builtins.setattr" and field in REPORT_FIELDS
            drops = method in ("clear", "remove", "pop") and ast.unparse(node.func).startswith("items.")
            if method in REPORT_CALLS or sets_a_field or (drops and not _selects_by_option(hook)):
                yield node


def _reports_set(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        fields = {part.attr for part in flat if isinstance(part, ast.Attribute) and _is_of_a_report(part)}
        adds = any(isinstance(inner, ast.Attribute) and inner.attr in fields for inner in ast.walk(node.value))
        lenient = "exitstatus" in fields and re.search(r"== (5|.*NO_TESTS_COLLECTED)", ast.unparse(function))
        if fields & REPORT_FIELDS and not adds and not lenient:
            yield node


def _is_of_a_report(field: ast.Attribute) -> bool:
    return not (isinstance(field.value, ast.Name) and field.value.id in ("self", "cls"))


def _leaves_tests_out(node: ast.Assign | ast.Delete, hook: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`items[:] = …` with fewer than there were; another order is none of it."""
    if not any(isinstance(part, ast.Subscript) and ast.unparse(part.value) == "items" for part in node.targets):
        return False
    if isinstance(node, ast.Delete):
        return not _selects_by_option(hook)
    shown = ast.unparse(node.value)
    reordered = re.match(r"(list\()?(sorted|reversed|random\.sample)\(", shown) or (
        isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add)
    )
    starred = isinstance(node.value, ast.List) and any(isinstance(part, ast.Starred) for part in node.value.elts)
    return not (reordered or starred or _selects_by_option(hook))


def _selects_by_option(hook: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ASKS_FOR_OPTIONS.search(ast.unparse(hook)) is not None


def _swallows(node: ast.Try) -> bool:
    """A test's failure caught around where it runs, and not raised again."""
    runs = any(isinstance(inner, ast.Yield) for part in node.body for inner in ast.walk(part))
    broad = re.compile(r"\b(AssertionError|Exception|BaseException)\b")
    for handler in node.handlers:
        caught = ast.unparse(handler.type) if handler.type else "BaseException"
        raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(handler))
        if runs and broad.search(caught) and not raises and "fail(" not in ast.unparse(handler):
            return True
    return False


def has_effect(hook: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> bool:
    """Whether a hook does more than tell, order, mark by an option or configure."""
    shown = ast.unparse(hook)
    if re.search(r"\b(exec|eval|vars)\(|__dict__|__class__|__code__|\bstats(\[.*\] \+?= |\.pop\(|\.clear\()", shown):
        return True
    if hook.name in RUNNING_HOOKS | DECIDING_HOOKS and not _selects_by_option(hook):
        returned = [
            inner.value for inner in ast.walk(hook) if isinstance(inner, ast.Return) and inner.value is not None
        ]
        if any(_decides(hook.name, value) for value in returned):
            return True
    for node in ast.walk(hook):
        if isinstance(node, ast.Call):
            called = names.dotted(node.func)
            owner = ast.unparse(node.args[0]) if node.args else ""
            unknown = len(node.args) > 1 and not isinstance(names.folded(node.args[1]), str)
            if called == "builtins.setattr" and unknown and not re.search(r"\b(item|node|config)\b", owner):
                return True
            if called.endswith(".runtest") or (called.endswith(".obj") and hook.name in RUNNING_HOOKS):
                return True
    return False


def _decides(hook: str, value: ast.expr) -> bool:
    """Whether an answer stands in for pytest's own."""
    if isinstance(value, ast.Yield | ast.Await) or (isinstance(value, ast.Constant) and not value.value):
        return False
    if hook == "pytest_report_teststatus":
        return isinstance(value, ast.Tuple) and ast.unparse(value.elts[0]) == "'passed'"
    if hook == "pytest_runtest_makereport":
        return not isinstance(value, ast.Name)
    return hook in RUNNING_HOOKS or isinstance(value, ast.Constant)


def _registers_a_plugin(node: ast.Call, place: ChangedFile) -> bool:
    """In a conftest only what comes from elsewhere: the hooks of its own classes are judged where they stand."""
    if not re.search(r"pluginmanager\b.*\.register$", ast.unparse(node.func)):
        return False
    given = node.args[0].func if node.args and isinstance(node.args[0], ast.Call) else None
    own = isinstance(given, ast.Name) and "." not in place.names.dotted(given)
    return not (own and place.role == "conftest")


def _texts(node: ast.AST) -> list[str]:
    return [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)]


def _says_it_ran(hook: ast.FunctionDef | ast.AsyncFunctionDef, answer: ast.Return) -> bool:
    """A hook that is to run tests, calls nothing and answers that it did."""
    if hook.name not in ("pytest_pyfunc_call", "pytest_runtest_protocol", "pytest_runtestloop"):
        return False
    runs = any(isinstance(inner, ast.Call | ast.Yield | ast.Await) for inner in ast.walk(hook))
    return not runs and isinstance(answer.value, ast.Constant) and bool(answer.value.value)
