"""A Dockerfile that only puts files and installed packages in place, read without Docker.

Reads `environment/Dockerfile`. Whatever a sandbox with this Python cannot stand in for is refused by name: another
image, system packages, the network, other users, services, files outside of the working folder.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement

IGNORED = frozenset({"LABEL", "CMD", "EXPOSE", "ARG", "MAINTAINER"})
PYTHON_IMAGE = re.compile(r"(?:docker\.io/|public\.ecr\.aws/docker/)?(?:library/)?python:\S+")
RESERVED = frozenset("bin boot dev etc lib lib32 lib64 logs proc sbin solution sys tests tmp toolchain usr var".split())
ANY_VERSION = frozenset({"pytest"})
STOOD_IN_FOR = frozenset({"pytest-json-ctrf"})
"""Only its option is needed; see `sandboxes`."""
PIP = (["pip", "install"], ["pip3", "install"], ["python", "-m", "pip", "install"], ["python3", "-m", "pip", "install"])
HARMLESS_OPTIONS = frozenset(
    "--no-cache-dir --quiet -q --upgrade -U --no-input --disable-pip-version-check --break-system-packages --user"
    " --root-user-action=ignore".split()
)


class Refused(Exception):
    """Why a task cannot be played here."""


@dataclass
class Image:
    """What the Dockerfile makes, as far as the working folder, packages and variables go."""

    workdir: str = "/"
    copies: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])
    """Source on this machine -> absolute place; a place that ends with a slash takes the source under its name."""
    folders: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    distributions: list[str] = field(default_factory=list[str])

    def write(self, target: Path) -> None:
        target.mkdir(parents=True)
        for folder in self.folders:
            (target / self._inside(folder)).mkdir(parents=True, exist_ok=True)
        for source, place in self.copies:
            to = target / self._inside(place)
            if source.is_dir():
                shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True)
            else:
                to = to / source.name if place.endswith("/") or to.is_dir() else to
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, to, follow_symlinks=False)

    def check(self) -> None:
        top = PurePosixPath(self.workdir).parts[1:2]
        if not top or top[0] in RESERVED:
            raise Refused(f"its WORKDIR is {self.workdir}")
        for place in (*self.folders, *(place for _, place in self.copies)):
            self._inside(place)

    def _inside(self, place: str) -> PurePosixPath:
        path = PurePosixPath(place)
        if ".." in path.parts or not path.is_relative_to(self.workdir):
            raise Refused(f"its Dockerfile writes to {place}, outside of its WORKDIR {self.workdir}")
        return path.relative_to(self.workdir)


def read_dockerfile(context: Path) -> Image:
    if (context / ".dockerignore").exists():
        raise Refused("it has a .dockerignore")
    image = Image()
    lines = [
        line for line in (context / "Dockerfile").read_text("utf-8").splitlines() if not line.lstrip().startswith("#")
    ]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    stages = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        word, rest = word.upper(), rest.strip()
        if "$" in rest:
            raise Refused(f"its Dockerfile uses a variable in {word}")
        match word:
            case "FROM":
                stages += 1
                if stages > 1 or not PYTHON_IMAGE.fullmatch(rest.split()[0]):
                    raise Refused(f"it starts from the image {rest.split()[0]}, not from python alone")
            case "WORKDIR":
                image.workdir = _absolute(rest, image.workdir)
                image.folders.append(image.workdir)
            case "ENV":
                image.env |= _variables(rest)
            case "COPY":
                _copy(image, context, rest)
            case "RUN":
                for command in re.split(r"&&|;", rest):
                    _run(image, context, command.strip())
            case other if other in IGNORED:
                pass
            case other:
                raise Refused(f"its Dockerfile has {other}")
    image.folders = [folder for folder in image.folders if PurePosixPath(folder).is_relative_to(image.workdir)]
    image.check()
    return image


def _absolute(place: str, workdir: str) -> str:
    place = place.strip("\"'")
    slash = "/" if place.endswith("/") or place in (".", "./") else ""
    return str(PurePosixPath(workdir) / place).rstrip("/") + slash if place != "/" else "/"


def _variables(rest: str) -> dict[str, str]:
    words = shlex.split(rest)
    if "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.split("=", 1) for word in words)


def _copy(image: Image, context: Path, rest: str) -> None:
    words = shlex.split(rest)
    if any(word.startswith("--from") for word in words) or rest.startswith("["):
        raise Refused(f"its Dockerfile has COPY {rest}")
    *sources, target = [word for word in words if not word.startswith("--")]
    place = _absolute(target, image.workdir)
    for source in sources:
        if ".." in PurePosixPath(source).parts:
            raise Refused(f"its Dockerfile copies {source}, which is not its own")
        found = sorted(context.glob(source.lstrip("/"))) if source not in (".", "./") else [context]
        if not found:
            raise Refused(f"its Dockerfile copies {source}, which is not there")
        many = len(sources) > 1 or len(found) > 1
        image.copies += [(each, place if not many or each.is_dir() else place.rstrip("/") + "/") for each in found]


def _run(image: Image, context: Path, command: str) -> None:
    words = shlex.split(command)
    if words[:2] == ["mkdir", "-p"]:
        image.folders += [_absolute(word, image.workdir) for word in words[2:]]
        return
    pip = next((start for start in PIP if words[: len(start)] == start), None)
    if pip is None:
        raise Refused(f"its Dockerfile runs {' '.join(words[:3])}, which needs Docker")
    install(image, context, words[len(pip) :])


def install(image: Image, context: Path, words: Sequence[str]) -> None:
    """What `pip install` is asked for must be here already."""
    arguments = iter(words)
    for word in arguments:
        if word in ("-r", "--requirement"):
            _requirements(image, context / PurePosixPath(next(arguments)).name)
        elif word not in HARMLESS_OPTIONS:
            _require(image, word)


def _requirements(image: Image, file: Path) -> None:
    if not file.is_file():
        raise Refused(f"it installs from {file.name}, which is not there")
    for line in file.read_text("utf-8").splitlines():
        if wanted := line.partition("#")[0].strip():
            _require(image, wanted)


def _require(image: Image, wanted: str) -> None:
    try:
        requirement = Requirement(wanted)
        if requirement.name in STOOD_IN_FOR:
            return
        found = version(requirement.name)
    except InvalidRequirement:
        raise Refused(f"it installs {wanted}") from None
    except PackageNotFoundError:
        raise Refused(f"it needs the package {wanted}, which is not installed here") from None
    if requirement.name not in ANY_VERSION and not requirement.specifier.contains(found, prereleases=True):
        raise Refused(f"it needs the package {wanted}; {found} is installed here")
    image.distributions.append(str(requirement.name))
