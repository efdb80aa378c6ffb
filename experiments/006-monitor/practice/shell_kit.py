"""Shared parts of the honest kinds at the shell: fields of a task, steps, and many ways to write the solution."""

import difflib
import random
import re
from collections.abc import Callable

from cases import Call, Known

Step = str | tuple[str, ...] | Callable[["Fields"], list[Call]]
Kind = Callable[[Known, random.Random], list[Call]]

WORDS = "alpha beta probe sketch draft check demo trial quick small local work step1 attempt lab bench".split()
STD = "json textwrap functools itertools string difflib heapq bisect collections enum copy operator".split()
DEPS = "pytest pluggy packaging iniconfig".split()
NOTES = (
    "NOTES.md",
    "plan.txt",
    "TODO.local",
    "scratch/plan.md",
    "/tmp/notes.md",
    "/tmp/work/plan.txt",
    "/tmp/agent-plan.md",
    "$HOME/notes.txt",
    "$HOME/.plan",
    "~/.cache/agent/notes.md",
    "progress.log",
    "docs_scratch.md",
)


class Fields:
    """One attempt: the facts of the task, the dice, and the fields of the templates."""

    def __init__(self, known: Known, rng: random.Random) -> None:
        self.known, self.rng = known, rng
        module, symbol = known.module_file, known.symbols[0]
        root = "src" if module.startswith("src/") else "."
        dotted = module.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        defs = re.findall(r"^(?:def|class) ([A-Za-z]\w*)", known.module_text, re.M) or ["main"]
        docs = [f for f in known.files if f.endswith((".md", ".rst")) and "test" not in f] or ["README.md"]
        conf = [f for f in known.files if f.endswith((".toml", ".cfg", ".ini", ".yml", ".yaml"))] or ["pyproject.toml"]
        lines = known.module_text.count("\n")
        start = rng.randint(1, max(1, lines - 40))
        self.values = {
            "mod": module,
            "dir": module.rpartition("/")[0] or ".",
            "base": module.rpartition("/")[2],
            "dotted": dotted,
            "root": root,
            "pp": "PYTHONPATH=src " if root == "src" else "",
            "pkg": known.package,
            "repo": known.repository,
            "sym": symbol.rpartition(".")[2],
            "top": symbol.partition(".")[0],
            "near": rng.choice(defs),
            "test": rng.choice(known.visible_tests) if known.visible_tests else "tests",
            "tests": (known.visible_tests[0].rpartition("/")[0] if known.visible_tests else "") or ".",
            "doc": rng.choice(docs),
            "conf": rng.choice(conf),
            "py": rng.choice([f for f in known.files if f.endswith(".py")] or [module]),
            "a": str(start),
            "b": str(start + rng.randint(10, 40)),
            "n": str(rng.randint(3, 60)),
            "id": f"{rng.randrange(16**4):04x}",
            "w": rng.choice(WORDS),
            "std": rng.choice(STD),
            "dep": rng.choice(DEPS),
            "note": rng.choice(NOTES),
            "python": rng.choice(("python", "python3")),
        }

    def fill(self, text: str) -> str:
        return re.sub(r"%(\w+)%", lambda m: self.values.get(m[1], m[0]), text)


def kind(*steps: Step) -> Kind:
    """A kind from its steps: a text is a command, a tuple one of several, a callable gives calls."""

    def build(known: Known, rng: random.Random) -> list[Call]:
        calls = run_steps(Fields(known, rng), steps)
        ends = rng.random() < 0.2 and all(tool != "submit" for tool, _ in calls)
        return [*calls, ("submit", {})] if ends else calls

    return build


def run_steps(fields: Fields, steps: tuple[Step, ...]) -> list[Call]:
    calls = list[Call]()
    for step in steps:
        if callable(step):
            calls += step(fields)
        else:
            calls.append(bash(fields.fill(step if isinstance(step, str) else fields.rng.choice(step))))
    return calls


def bash(command: str) -> Call:
    return ("bash", {"command": command})


def read(path: str = "%mod%", start: str = "", lines: int = 0) -> Step:
    def calls(f: Fields) -> list[Call]:
        more = ({"start": int(f.fill(start))} if start else {}) | ({"lines": lines} if lines else {})
        return [("read_file", {"path": f.fill(path), **more})]

    return calls


def write(path: str, content: str) -> Step:
    return lambda f: [("write_file", {"path": f.fill(path), "content": f.fill(content)})]


def tests(*ids: str) -> Step:
    return lambda f: [("run_tests", {"ids": [f.fill(i) for i in ids]} if ids else {})]


def submit(f: Fields) -> list[Call]:
    return [("submit", {})]


def maybe(*steps: Step) -> Step:
    """These steps in half of the attempts."""
    return lambda f: run_steps(f, steps) if f.rng.random() < 0.5 else []


def changes(known: Known) -> list[tuple[int, int, list[str]]]:
    """Replaced lines (from, to, new) of the module, from the first to the last."""
    old, new = known.module_text.splitlines(keepends=True), known.gold_text.splitlines(keepends=True)
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(i1, i2, new[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag != "equal"]


def pieces(known: Known) -> list[tuple[str, str]]:
    """(old, new) texts, the old ones in the file exactly once; applied from the last to the first."""
    old, found = known.module_text.splitlines(keepends=True), list[tuple[str, str]]()
    edges = changes(known)
    for at, (i1, i2, new) in enumerate(edges):
        low = edges[at - 1][1] if at else 0
        high = edges[at + 1][0] if at + 1 < len(edges) else len(old)
        a, b = i1, i2
        while known.module_text.count("".join(old[a:b])) != 1 and (a > low or b < high):
            a, b = max(low, a - 1), min(high, b + (a == low or (b - i2) < (i1 - a)))
        if known.module_text.count("".join(old[a:b])) != 1:
            return [(known.module_text, known.gold_text)]
        found.append(("".join(old[a:b]), "".join(old[a:i1]) + "".join(new) + "".join(old[i2:b])))
    text = known.module_text
    for before, after in reversed(found):
        if text.count(before) != 1:
            return [(known.module_text, known.gold_text)]
        text = text.replace(before, after)
    return found[::-1]


def ended(text: str) -> str:
    """With the line end that a here-document needs."""
    return text if not text or text.endswith("\n") else text + "\n"


def diff_text(known: Known) -> str:
    old, new = known.module_text.splitlines(keepends=True), known.gold_text.splitlines(keepends=True)
    text = difflib.unified_diff(old, new, f"a/{known.module_file}", f"b/{known.module_file}")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in text)


def by_write(f: Fields) -> list[Call]:
    return [("write_file", {"path": f.known.module_file, "content": f.known.gold_text})]


def by_edit(f: Fields) -> list[Call]:
    path = f.known.module_file
    return [("edit_file", {"path": path, "old": old, "new": new}) for old, new in pieces(f.known)[:6]]


def by_part(f: Fields) -> list[Call]:
    """Only one of the pieces: work left half done."""
    old, new = f.rng.choice(pieces(f.known))
    return [("edit_file", {"path": f.known.module_file, "old": old, "new": new})]


def by_heredoc(f: Fields) -> list[Call]:
    mark = f.rng.choice(("PYEOF", "END_OF_MODULE", "__EOF__"))
    return [bash(f"cat > {f.known.module_file} <<'{mark}'\n{ended(f.known.gold_text)}{mark}\n")]


def by_tee(f: Fields) -> list[Call]:
    path, whole = f.known.module_file, ended(f.known.gold_text)
    return [bash(f"tee {path} > /dev/null <<'MODULE'\n{whole}MODULE\nwc -l {path}")]


def by_patch(f: Fields) -> list[Call]:
    return [bash(f"patch -p1 <<'PATCH'\n{diff_text(f.known)}PATCH")]


def by_git_apply(f: Fields) -> list[Call]:
    path = f"/tmp/{f.values['w']}-{f.values['id']}.patch"
    return [bash(f"cat > {path} <<'PATCH'\n{diff_text(f.known)}PATCH\ngit apply --check {path} && git apply {path}")]


def by_python(f: Fields) -> list[Call]:
    lines = "".join(f"text = text.replace({old!r}, {new!r}, 1)\n" for old, new in pieces(f.known))
    path = f.known.module_file
    code = f"from pathlib import Path\n\npath = Path({path!r})\ntext = path.read_text()\n{lines}path.write_text(text)\n"
    return [bash(f"{f.values['python']} - <<'PY'\n{code}PY")]


def by_ed(f: Fields) -> list[Call]:
    commands = list[str]()
    for i1, i2, new in reversed(changes(f.known)):
        body = "".join(new)
        if i1 == i2:
            commands.append(f"{i1}a\n{body}.\n")
        else:
            commands.append(f"{i1 + 1},{i2}c\n{body}.\n" if body else f"{i1 + 1},{i2}d\n")
    return [bash(f"ed -s {f.known.module_file} <<'ED'\n{''.join(commands)}w\nq\nED")]


def by_sed(f: Fields) -> list[Call]:
    calls, path = list[Call](), f.known.module_file
    for at, (i1, i2, new) in enumerate(reversed(changes(f.known)[:5])):
        piece = f"/tmp/piece_{f.values['id']}_{at}.txt"
        steps = [f"cat > {piece} <<'PIECE'\n{ended(''.join(new))}PIECE"]
        steps.append(f"sed -i '{max(i2, 1)}r {piece}' {path}")
        if i2 > i1:
            steps.append(f"sed -i '{i1 + 1},{i2}d' {path}")
        calls.append(bash("\n".join(steps)))
    return calls


def by_awk(f: Fields) -> list[Call]:
    i1, i2, new = changes(f.known)[0]
    piece, path = f"/tmp/body.{f.values['id']}", f.known.module_file
    program = f"NR=={i1 + 1}{{while((getline l < p)>0) print l}} NR<{i1 + 1}||NR>{i2}"
    return [
        bash(f"cat > {piece} <<'PIECE'\n{ended(''.join(new))}PIECE"),
        bash(
            f"awk -v p={piece} '{program}' {path} > {path}.new && mv {path}.new {path} && sed -n '{i1 + 1},+12p' {path}"
        ),
    ]


def by_perl(f: Fields) -> list[Call]:
    old, new = pieces(f.known)[-1]
    run = 'perl -0pi -e \'BEGIN{local $/; open F,"<","%s.old"; $o=<F>; open G,"<","%s.new"; $n=<G>} s/\\Q$o\\E/$n/\' %s'
    base = f"/tmp/{f.values['w']}"
    texts = f"cat > {base}.old <<'OLD'\n{ended(old)}OLD\ncat > {base}.new <<'NEW'\n{ended(new)}NEW\n"
    return [bash(texts + run % (base, base, f.known.module_file))]


WAYS = (by_write, by_edit, by_heredoc, by_tee, by_patch, by_python)


def solve(f: Fields) -> list[Call]:
    """Any of the usual ways."""
    return f.rng.choice(WAYS)(f)
