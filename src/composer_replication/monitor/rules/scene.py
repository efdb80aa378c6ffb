"""What is known of a rollout while its steps are gone through: the task's names, and what the agent made itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Self

from ..conduct import Act, Conduct
from .own_work import as_pattern, fits, products

TEST_PATH = re.compile(
    r"(^|/)(tests?|testing)/(?!.*__pycache__)(?!\*\*)[^/]*\.py$|(^|/)(tests?|testing)/(?!.*__pycache__)[^*]*\.py$|(^|/)(test_[\w*]+|\w+_test)\.py$|(^|/)tests?/?$"
)
STASH_LOOKS = re.compile(r"(list|show|pop|apply|branch|drop|clear)\b")
SHARED = re.compile(r"|[.*]+|~|/\w+|/(var/tmp|dev/shm)|.*/\.\.")
"""Places that nobody makes, even who copies something into them."""
_COMPONENT = re.compile(r"[^/]+")

MOST_PLUGINS = 20


@dataclass
class Scene:
    """`in_task` says whether this is a rollout in a sealed task, where nothing outside the tree is of use."""

    packages: frozenset[str] = frozenset()
    symbols: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    """Those of the symbols."""
    test_files: frozenset[str] = frozenset()
    in_task: bool = False
    made: set[str] = field(default_factory=set[str])
    stashed: bool = False
    own_history: bool = False
    """Whether the agent made the repository itself: its history is the agent's own."""
    own_repositories: set[str] = field(default_factory=set[str])
    """Other folders that the agent made repositories of."""
    commits: int = 0
    """Of the agent's own."""
    existing: frozenset[str] = frozenset()
    """Files that were there at the start, of those that changed."""
    copies: dict[str, str] = field(default_factory=dict[str, str])
    """Copy -> what it is a copy of."""
    plugins: dict[str, str] = field(default_factory=dict[str, str])
    """Files with hooks of pytest that the agent wrote, by path."""
    marks: set[str] = field(default_factory=set[str])
    """Of pytest, that the agent put into tests."""
    behind: list[str] = field(default_factory=list[str])
    """Programs that the agent started in the background."""
    ends_later: bool = False
    """Whether a later step ends a process of the agent's own."""
    acts: tuple[Act, ...] = ()
    """Of the step that is judged."""

    @classmethod
    def of(cls, conduct: Conduct) -> Self:
        if conduct.evidence is None:
            return cls()
        task = conduct.evidence.task
        return cls(
            packages=frozenset(plain_name(package) for package in task.packages),
            symbols=frozenset(part for symbol in task.symbols for part in symbol.name.split(".") if len(part) > 2),
            modules=frozenset(PurePosixPath(symbol.file).stem for symbol in task.symbols),
            files=frozenset(symbol.file for symbol in task.symbols),
            test_files=frozenset(task.test_files),
            existing=frozenset(conduct.evidence.before) | frozenset(conduct.evidence.removed),
            in_task=True,
        )

    def begin(self, acts: Iterable[Act]) -> None:
        self.acts = tuple(acts)
        for act in self.acts:
            if act.verb in ("run", "git", "import", "env"):
                for path in products(act):
                    self._own(path)

    def note(self, act: Act) -> None:
        """What an act leaves that later ones, of the same step too, may look at."""
        if act.verb == "write":
            self._note_write(act)
        elif act.verb == "background":
            self.behind.append(act.detail)
        elif act.verb == "git" and act.target == "init":
            if re.search(r"(^|\s)[/~]|\.\.", act.detail):
                self.own_repositories.update(word for word in act.detail.split() if word[0] in "/~.")
            elif act.folder.startswith(("/", "~", "..")) and not act.folder.startswith("/work"):
                self.own_repositories.add(act.folder)
            else:
                self.own_history = True
        elif act.verb == "git" and act.target == "commit":
            self.commits += 1
        elif act.verb == "git" and act.target == "stash" and not STASH_LOOKS.match(act.detail):
            self.stashed = True
        elif act.verb == "unpack" and (found := re.search(r"(?:-d|-C|-e \S+)\s+(\S+)", act.detail)):
            self.made.add(found[1].rstrip("/"))

    def _note_write(self, act: Act) -> None:
        if act.target.endswith(".py") and "def pytest_" in act.text and len(self.plugins) < MOST_PLUGINS:
            self.plugins[act.target] = act.text
        if is_test(act.target, self):
            self.marks.update(re.findall(r"pytest\.mark\.(\w+)", act.text))
        if act.detail in ("cp", "mv", "shutil.copy", "shutil.copy2", "shutil.copyfile"):
            self.copies[act.target] = act.text
            if not is_test(act.target, self) and " " not in act.text:
                self.made.add(f"{act.target.rstrip('/')}/{act.text.rpartition('/')[2]}")
        if not is_test(act.target, self) or (
            act.target not in self.test_files
            and act.target not in self.existing
            and act.detail not in ("edit", "sed -i")
        ):
            self._own(as_pattern(act.target))

    def _own(self, path: str) -> None:
        path = path.rstrip("/")
        if not SHARED.fullmatch(path):
            self.made.add(path)

    def in_own_repository(self, folder: str) -> bool:
        return self.own_history or any(
            folder == each or folder.startswith(f"{each}/") for each in self.own_repositories
        )

    def own(self, path: str) -> bool:
        """Whether the agent made this file, or a folder above it."""
        if path in self.made:
            return True
        parts = _COMPONENT.findall(path)
        prefixes = {
            ("/" if path.startswith("/") else "") + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)
        }
        if prefixes & self.made or self._names_own_files(path):
            return True
        names = {made for made in self.made if "/" not in made}
        return any(part in names or any(fnmatchcase(part, name) for name in names if "*" in name) for part in parts)

    def _names_own_files(self, path: str) -> bool:
        """A pattern with a name in it, as `/tmp/*.md`, that fits what the agent has made, or the other way round."""
        patterned = re.search(r"[*?\[]", path) is not None
        return any(("/" in made or patterned) and fits(made, path) for made in self.made if patterned or "*" in made)

    def names_target(self, text: str) -> bool:
        """Whether a text names the task's package, a module of its symbols, or a symbol."""
        words = {plain_name(word) for word in re.findall(r"[A-Za-z_][\w-]*", text)}
        return bool(words & self.packages) or bool(set(re.findall(r"\w+", text)) & (self.symbols | self.modules))

    def names_package(self, text: str) -> bool:
        return bool({plain_name(word) for word in re.findall(r"[A-Za-z_][\w.-]*", text)} & self.packages) or any(
            package in plain_name(text) for package in self.packages if len(package) > 3
        )


def plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name.lower()).strip("_")


def is_test(path: str, scene: Scene) -> bool:
    return path in scene.test_files or TEST_PATH.search(path) is not None
