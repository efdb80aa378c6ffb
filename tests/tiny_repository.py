"""A repository of one small package with a green suite, written where a test wants it."""

from pathlib import Path

from composer_replication.environments.code.tasks.loading import load_repository
from composer_replication.environments.code.tasks.repository import Repository
from composer_replication.environments.code.tasks.task import Candidate, Symbol

FILES = {
    "pyproject.toml": '[project]\nname = "tiny-shapes"\nversion = "1.0"\nlicense = "MIT"\n',
    "LICENSE": "MIT License\n",
    "README.md": "# tiny-shapes\n\nRectangles and words.\n",
    "shapes/__init__.py": (
        "from .area import perimeter, rectangle\n"
        "from .words import describe, shout\n"
        "\n"
        "__all__ = ['describe', 'perimeter', 'rectangle', 'shout']\n"
    ),
    "shapes/area.py": (
        '"""Areas."""\n'
        "\n"
        "\n"
        "def checked(side):\n"
        "    if side < 0:\n"
        "        raise ValueError('a side is negative')\n"
        "    return side\n"
        "\n"
        "\n"
        "def rectangle(width, height=None):\n"
        '    """The area of a rectangle; of a square where there is one side."""\n'
        "    if height is None:\n"
        "        height = width\n"
        "    return checked(width) * checked(height)\n"
        "\n"
        "\n"
        "def perimeter(width, height):\n"
        '    """Around it once."""\n'
        "    sides = [width, height]\n"
        "    return 2 * sum(sides)\n"
    ),
    "shapes/words.py": (
        '"""Words."""\n'
        "\n"
        "LOUD = '!'\n"
        "\n"
        "\n"
        "def greeting(name):\n"
        "    return f'hello {name}'\n"
        "\n"
        "\n"
        "WELCOME = greeting('shape')\n"
        "\n"
        "\n"
        "def shout(text):\n"
        "    return text.upper() + LOUD\n"
        "\n"
        "\n"
        "def describe(width, height):\n"
        "    kind = 'square' if width == height else 'rectangle'\n"
        "    return f'a {kind} of {width} by {height}'\n"
    ),
    "tests/test_area.py": (
        "import pytest\n"
        "\n"
        "from shapes import perimeter, rectangle\n"
        "\n"
        "\n"
        "@pytest.mark.parametrize('sides, area', [((2, 3), 6), ((4, 5), 20), ((1, 9), 9)])\n"
        "def test_rectangle(sides, area):\n"
        "    assert rectangle(*sides) == area\n"
        "\n"
        "\n"
        "def test_square():\n"
        "    assert rectangle(5) == 25\n"
        "\n"
        "\n"
        "def test_negative():\n"
        "    with pytest.raises(ValueError):\n"
        "        rectangle(-1)\n"
        "\n"
        "\n"
        "def test_perimeter():\n"
        "    assert perimeter(2, 3) == 10\n"
        "\n"
        "\n"
        "def test_perimeter_of_a_line():\n"
        "    assert perimeter(0, 4) == 8\n"
    ),
    "tests/test_words.py": (
        "from shapes import describe, shout\n"
        "from shapes.words import WELCOME, greeting\n"
        "\n"
        "\n"
        "def test_shout():\n"
        "    assert shout('a') == 'A!'\n"
        "\n"
        "\n"
        "def test_shout_twice():\n"
        "    assert shout(shout('a')) == 'A!!'\n"
        "\n"
        "\n"
        "def test_shout_nothing():\n"
        "    assert shout('') == '!'\n"
        "\n"
        "\n"
        "def test_welcome():\n"
        "    assert WELCOME == greeting('shape')\n"
        "\n"
        "\n"
        "def test_describe_square():\n"
        "    assert describe(1, 1) == 'a square of 1 by 1'\n"
        "\n"
        "\n"
        "def test_describe_rectangle():\n"
        "    assert describe(1, 2) == 'a rectangle of 1 by 2'\n"
    ),
}
RECTANGLE_TESTS = frozenset(
    {
        "tests/test_area.py::test_rectangle[sides0-6]",
        "tests/test_area.py::test_rectangle[sides1-20]",
        "tests/test_area.py::test_rectangle[sides2-9]",
        "tests/test_area.py::test_square",
        "tests/test_area.py::test_negative",
    }
)
RECTANGLE = Symbol(file="shapes/area.py", name="rectangle")
BODY = "    if height is None:\n        height = width\n    return checked(width) * checked(height)\n"


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def tiny_repository(folder: Path, changes: dict[str, str] | None = None) -> Repository:
    source = write_files(folder / "source", {**FILES, **(changes or {})})
    return load_repository(source, folder / "clean")


def stubbed_rectangle(**changes: object) -> Candidate:
    """The candidate that every gate lets through."""
    values: dict[str, object] = {
        "name": "rectangle",
        "generator": "feature_deletion",
        "mode": "stub",
        "symbols": (RECTANGLE,),
        "edits": {"shapes/area.py": FILES["shapes/area.py"].replace(BODY, "    raise NotImplementedError\n")},
        "expected_failing": RECTANGLE_TESTS,
        "statement": {"L0": "Write `rectangle` of shapes/area.py again."},
        "editable": ("shapes/*",),
    }
    return Candidate(**{**values, **changes})  # type: ignore[arg-type]


def propose(repository, coverage, settings):
    """A generator: one good candidate, one that nothing notices, one that does not import."""
    from composer_replication.environments.code.generators.kinds import GeneratorSettings

    assert isinstance(settings, GeneratorSettings) and repository.name == "tiny-shapes"
    assert coverage.by_symbol[RECTANGLE] == RECTANGLE_TESTS
    yield stubbed_rectangle()
    yield stubbed_rectangle(name="harmless", edits={"shapes/area.py": FILES["shapes/area.py"] + "\n"})
    yield stubbed_rectangle(name="broken", edits={"shapes/words.py": "raise RuntimeError\n"})


def propose_shout(repository, coverage, settings):
    """Another generator with a good candidate."""
    body = "    return text.upper() + LOUD\n"
    yield stubbed_rectangle(
        name="shout",
        symbols=(Symbol(file="shapes/words.py", name="shout"),),
        edits={"shapes/words.py": FILES["shapes/words.py"].replace(body, "    raise NotImplementedError\n")},
        expected_failing=frozenset(f"tests/test_words.py::test_shout{more}" for more in ("", "_twice", "_nothing")),
        statement={"L0": "Write `shout` of shapes/words.py again."},
    )
