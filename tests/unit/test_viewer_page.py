"""The page in the package is the one that `viewer/` builds, is small, and names no place outside."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import composer_replication.viewer

SOURCES = Path(__file__).parents[2] / "viewer"
PAGE = Path(composer_replication.viewer.__file__).parent / "page"
STAMP = "made-from.txt"
BUILT_FROM = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")
MAX_BYTES = 200_000


def test_the_page_is_built_from_these_sources():
    written = [str(path.relative_to(SOURCES)) for path in (SOURCES / "src").rglob("*") if path.is_file()]
    sources, made = (PAGE / STAMP).read_text().split()
    assert sources == hash_of(SOURCES, [*BUILT_FROM, *written]), "the sources changed: make viewer"
    built = [path.name for path in PAGE.iterdir() if path.name != STAMP]
    assert made == hash_of(PAGE, built), "changed by hand: make viewer"


def test_the_page_is_small():
    assert sum(len(gzip.compress(path.read_bytes())) for path in PAGE.iterdir()) < MAX_BYTES


def test_the_lock_file_names_packages_by_hash_and_not_by_address():
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: found for name, found in lock["packages"].items() if name}
    assert all(found["integrity"].startswith("sha512-") for found in packages.values())
    assert not [name for name, found in packages.items() if "resolved" in found]


def test_no_text_of_a_run_can_become_markup():
    """Preact makes text nodes of strings; these are the ways around it."""
    ways = re.compile(r"(?i)(?:inner|outer|adjacent)HTML|document\.write|\beval\(|new Function|srcdoc|DOMParser")
    for path in (SOURCES / "src").rglob("*.ts*"):
        assert not ways.search(path.read_text()), path.name


def hash_of(folder: Path, names: list[str]) -> str:
    found = hashlib.sha256()
    for name in sorted(names):
        found.update(name.encode() + b"\0" + (folder / name).read_bytes() + b"\0")
    return found.hexdigest()
