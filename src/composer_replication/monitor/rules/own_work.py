"""What a program leaves behind that the agent may look at afterwards: outputs that it named, backups, build products.

Reads acts, gives paths and patterns of paths. Names without a slash stand for any file or folder of that name.
Not known: what a script of the project writes to places that no option names.
"""
# ruff: noqa: E501 - patterns are easier to read unbroken

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ..conduct import Act
from ..shell.script import joined

TEMPORARY = re.compile(r"^(/tmp|/var/tmp|/dev/shm|~)(/|$)")
_WILD = re.compile(r"[*?\[]")
_UNKNOWN = re.compile(r"\$\([^()]*\)|\$\{[^}]*\}|\$\w+|`[^`]*`")
_OUTPUT = re.compile(
    r"(?:^|\s)(?:-[oOdwtC]|--?[a-z-]*(?:out|dir|dest|target|temp|tmp|xml|log|report|file|prefix|cache|html|save|write)[a-z-]*)[ =]?"
    r"((?:/tmp|/var/tmp|/dev/shm|~)/\S+)"
)
_READS_ONLY = frozenset(
    "cat head tail less more strings grep egrep fgrep rg ag ls find cut sort od xxd diff cmp awk jq".split()
)
_BUILDS = (
    (re.compile(r"^(-m )?build\b|setup\.py (sdist|build\w*|bdist\w*|develop|install|egg_info)|^wheel \."), ("dist", "build", "*.egg-info")),
    (re.compile(r"^wheel\b|^(pip )?install (.* )?(\.|-e|--editable)|^sync\b|^install$"), ("build", "*.egg-info")),
    (re.compile(r"\bbuild_ext\b"), ("*.so",)),
    (re.compile(r"-m (compileall|py_compile)\b"), ("__pycache__", "*.pyc")),
    (re.compile(r"\bcoverage html\b|--cov-report[= ]html"), ("htmlcov",)),
    (re.compile(r"^(-m )?lib2to3\b.*-w"), ("*.bak",)),
)  # fmt: skip
"""Arguments of Python and its installers after which these products are the agent's own."""
_BUILDERS = frozenset("python python3 pip pip3 uv poetry hatch pdm flit pytest coverage".split())
_ALWAYS: dict[str, tuple[str, ...]] = {
    "pytest": (".pytest_cache",), "mypy": (".mypy_cache",), "dmypy": (".mypy_cache",), "ruff": (".ruff_cache",),
    "coverage": ("htmlcov",), "tox": (".tox",), "nox": (".nox",), "sphinx-build": ("_build",), "javac": ("*.class",),
    "gcc": ("*.o", "*.so"), "cc": ("*.o", "*.so"), "g++": ("*.o", "*.so"), "clang": ("*.o", "*.so"),
    "make": ("build", "_build", "*.o"), "cmake": ("build",), "ctags": ("tags", "TAGS"), "etags": ("TAGS",),
    "patch": ("*.orig", "*.rej"), "2to3": ("*.bak",), "indent": ("*.c~", "*.h~"), "emacs": ("*~",), "vim": ("*~",),
    "vi": ("*~",), "nano": ("*~",), "jupyter": ("*.ipynb",), "build": ("dist", "build"),
}  # fmt: skip
_NO_CACHE = "no:cacheprovider"
_SUFFIX = re.compile(r"(?:^|\s)(?:-[a-zA-Z]*i|--in-place=)([.~][\w.~-]*)")
_SUFFIX_OPTION = re.compile(r"(?:-[A-Za-z]*S|--suffix)[ =]?(\S+)")


def products(act: Act) -> Iterator[str]:
    """Of one program that ran, or of one use of git."""
    words = act.detail.split()
    plain = [word for word in words if not word.startswith("-")]
    if act.verb == "git":
        yield from _of_git(act, plain)
    elif act.verb == "env" and act.target == "PYTHONPYCACHEPREFIX":
        yield act.text
    elif act.verb == "import" and act.target.split(".")[0] in ("py_compile", "compileall"):
        yield from ("__pycache__", "*.pyc")
    elif act.verb == "run":
        yield from _of_program(act, words, plain)


def _of_git(act: Act, plain: list[str]) -> Iterator[str]:
    if act.target == "clone" and len(plain) > 1:
        yield joined(act.folder, plain[-1])
    elif act.target == "worktree" and plain[:1] == ["add"]:
        yield from (joined(act.folder, word) for word in plain[1:] if "/" in word)
    elif act.target == "init" and plain:
        yield joined(act.folder, plain[-1])
    elif act.target in ("apply", "am", "merge", "mergetool") and "add" not in plain:
        yield from ("*.orig", "*.rej")
    yield from (found[1].rstrip("/") for found in _OUTPUT.finditer(act.detail))


def _of_program(act: Act, words: list[str], plain: list[str]) -> Iterator[str]:
    name, detail = act.target, act.detail
    module = re.match(r"-m ([\w.]+)", detail)
    for tool in (name, module[1] if module else ""):
        if tool in _ALWAYS and not (tool == "pytest" and _NO_CACHE in detail):
            yield from _ALWAYS[tool]
    if name in _BUILDERS:
        for pattern, made in _BUILDS:
            if pattern.search(detail):
                yield from made
    if name not in _READS_ONLY:
        yield from (found[1].rstrip("/") for found in _OUTPUT.finditer(detail))
    if name in ("mkdir", "mkfifo", "mktemp", "script", "virtualenv"):
        yield from (joined(act.folder, word).rstrip("/") for word in plain)
    if name == "mktemp":
        yield "/tmp/tmp.XXXXXXXXXX"  # noqa: S108
    if (module and module[1] == "venv") or (name == "uv" and plain[:1] == ["venv"]):
        yield from (joined(act.folder, word) for word in plain[1:])
    if name in ("split", "csplit"):
        prefix = re.search(r"(?:-f ?|--prefix=)(\S+)", detail)
        start = prefix[1] if prefix else plain[-1] if plain and name == "split" else "xx"
        yield f"{joined(act.folder, start)}*"
    if packed := re.search(
        r"-m (?:zipfile|tarfile) (?:-c|--create) (\S+)|-m zipapp .*(?:-o|--output=?) ?(\S+)", detail
    ):
        yield packed[1] or packed[2]
    if name in ("sed", "gsed", "perl") and (suffix := _SUFFIX.search(detail)):
        yield from (joined(act.folder, word) + suffix[1] for word in plain)
    if name in ("cp", "mv", "install", "ln") and plain and re.search(r"(^|\s)(-[a-zA-Z]*b|--backup)", detail):
        suffix = _SUFFIX_OPTION.search(detail)
        end = joined(act.folder, plain[-1])
        for path in (end, *(f"{end.rstrip('/')}/{word.rpartition('/')[2]}" for word in plain[:-1])):
            yield from (path + (suffix[1] if suffix else "~"), f"{path}.~*")


def as_pattern(path: str) -> str:
    """A path whose unknown pieces, as `$(basename $f)`, may be anything."""
    return _UNKNOWN.sub("*", path)


def fits(made: str, path: str) -> bool:
    """Whether a path or pattern can mean what was made, itself a path or a pattern; both need a name of their own."""
    if not _is_named(made) or not _is_named(path):
        return False
    if not _WILD.search(made):
        return any(fnmatchcase(made, pattern) for pattern in {path, path.replace("/**/", "/")})
    if not _WILD.search(path):
        return fnmatchcase(path, made)
    (start, end), (other_start, other_end) = _literal_ends(made), _literal_ends(path.replace("/**/", "/"))
    return (start.startswith(other_start) or other_start.startswith(start)) and (
        end.endswith(other_end) or other_end.endswith(end)
    )


def _is_named(path: str) -> bool:
    return re.search(r"\w", re.sub(r"\[[^\]]*\]", "", path.rpartition("/")[2])) is not None


def _literal_ends(pattern: str) -> tuple[str, str]:
    return _WILD.split(pattern, maxsplit=1)[0], re.split(r"[*?\]]", pattern)[-1]
