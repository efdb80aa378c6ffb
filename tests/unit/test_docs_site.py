"""`make docs`: every page and the API reference as a site, without a warning and without a link that leads nowhere."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("reference*.md")))
PLAIN = {"byte_offset", "content", "folder", "name", "path", "reason", "task_id", "text", "value"}
"""Arguments whose names say it."""
MODULES = dict(re.findall(r"^\.\. automodule:: (\S+)\n((?: +.*\n)*)", REFERENCE, re.MULTILINE))


class References(HTMLParser):
    """What a page loads or links to, the anchors that it has, and what it says of those that are names of the API."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors, self.said = [], set(), defaultdict(str)
        self._named, self._open = "", [""]
        self.feed(page.read_text())

    def handle_data(self, data):
        self.said[self._open[-1]] += data

    def handle_endtag(self, tag):
        if tag in ("dt", "dd"):
            self._open.pop()

    def handle_starttag(self, tag, attributes):
        if tag == "dt":
            self._named = dict(attributes).get("id", self._open[-1])
            self._open.append(None)  # a signature, which may hold lists of its own, says nothing of its arguments
        if tag == "dd":
            self._open.append(self._named if self._open[-1] is not None else None)
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.targets.append((tag, value))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(folder)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-4000:]
    return {page: References(page) for page in folder.rglob("*.html")}


def test_no_page_needs_a_network_and_every_link_leads_somewhere(site):
    assert len(site) >= 60
    for page, found in site.items():
        for tag, target in found.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert tag == "a", f"{page.name} loads {target}"
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert there.exists(), f"{page.name}: {target}"
            if parts.fragment and there in site:
                assert parts.fragment in site[there].anchors, f"{page.name}: {target}"


def test_the_list_of_pages_has_each_page_once(site):
    page = next(page for page in site if page.name == "evidence.html")
    tree = page.read_text().split('class="sidebar-tree"')[1].split("</nav>")[0].split("</aside>")[0]
    shown = [(page.parent / target).resolve() for target in re.findall(r'<a [^>]*href="([^"#]+)', tree)]
    assert len(shown) == len(set(shown))
    written = {path.relative_to(ROOT).with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    folder = page.parents[1]
    assert written - {path.relative_to(folder).with_suffix("") for path in shown} == {Path("docs/evidence")}


def listed(module, kind):
    """The names that an `automodule` with these options shows, or leaves out."""
    names = re.search(rf":{kind}: *(.*(?:\n {{4,}}.*)*)", MODULES[module])
    return re.findall(r"\w+", names[1]) if names else []


def public(module):
    loaded = importlib.import_module(module)
    own = [name for name, value in vars(loaded).items() if getattr(value, "__module__", None) == module]
    shown = listed(module, "members") or getattr(loaded, "__all__", [name for name in own if not name.startswith("_")])
    for name in shown:
        named = getattr(loaded, name)
        is_own = getattr(named, "__name__", "") == name and name not in listed(module, "exclude-members")
        if is_own and (inspect.isclass(named) or inspect.isfunction(named)):
            yield f"{module}.{name}", named


@pytest.fixture(scope="module")
def reference(site):
    """What the reference says, by name."""
    pages = [found for page, found in site.items() if page.name.startswith("reference")]
    return {name: found.said[name] for found in pages for name in found.anchors}


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_tells_something_about_every_public_name(reference, module):
    for name, named in public(module):
        # Dataclasses and named tuples get their signature for want of anything better.
        assert named.__doc__ and not named.__doc__.startswith(f"{named.__name__}("), name
        assert reference[name].strip(), name


def is_explained(argument, said):
    """By the text, or by its type where that has the same name."""
    kind = re.sub(r"\W", "", str(argument.annotation)).lower()
    return re.search(rf"\b{argument.name}\b", said) or argument.name.rstrip("s").replace("_", "").lower() in kind


def functions(name, named):
    """Functions and methods of a public name, each with its own name; those that libraries make are left out."""
    if not inspect.isclass(named):
        return {name: inspect.unwrap(named)}
    inside = {part: inspect.unwrap(getattr(value, "__func__", value)) for part, value in vars(named).items()}
    own = {part: value for part, value in inside.items() if getattr(value, "__module__", "") == named.__module__}
    if dataclasses.is_dataclass(named):
        own.pop("__init__", None)
    return {name if part == "__init__" else f"{name}.{part}": value for part, value in own.items()}


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_explains_every_method_and_every_argument(reference, module):
    silent = []
    for public_name, named in public(module):
        for name, function in functions(public_name, named).items():
            if name in reference and inspect.isfunction(function):
                arguments = inspect.signature(function).parameters.values()
                told = [one for one in arguments if one.name not in {"self", "cls", "kwargs", *PLAIN}]
                silent += [name] if not reference[name].strip() else []
                silent += [f"{name}: {one}" for one in told if not is_explained(one, reference[name])]
    assert not silent


def fields(kind):
    """Of a class itself, not of those that it inherits from; and the defaults, by name."""
    defaults = dict(getattr(kind, "_field_defaults", {}))
    models = getattr(kind, "model_fields", {}).items()
    defaults |= {
        field: entry.get_default(call_default_factory=True) for field, entry in models if not entry.is_required()
    }
    for field, annotation in inspect.get_annotations(kind).items():
        if not field.startswith("_") and "ClassVar" not in str(annotation):
            yield inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=annotation), defaults


def test_the_reference_explains_every_field_and_tells_its_default(reference):
    """By its own text, by the name in the text of its class, or by its type."""
    shown = dict(pair for module in MODULES for pair in public(module))
    shown |= {
        name: pydoc.locate(name) for name in re.findall(r"^\.\. autoclass:: (\S+)\n +:mem", REFERENCE, re.MULTILINE)
    }
    silent = []
    for name, kind in shown.items():
        if any(hasattr(kind, mark) for mark in ("__dataclass_fields__", "_fields", "model_fields")):
            for field, defaults in fields(kind):
                said = reference.get(place := f"{name}.{field.name}", field.name)
                named = re.findall(r"`(\w+)`", kind.__doc__ or "")
                if not said.partition("Default:")[0].strip() and field.name not in {*named, *PLAIN}:
                    silent += [] if is_explained(field, "") else [place]
                if field.name in defaults and len(repr(defaults[field.name])) <= 60 and place in reference:
                    silent += [] if "Default:" in said else [f"{place}, its default"]
    assert not silent


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_every_member_of_the_objects_that_functions_get(reference, module):
    for name, named in public(module):
        if inspect.isclass(named):
            members = {*inspect.get_annotations(named), *vars(named)} - {*listed(module, "exclude-members")}
            shown = {member for member in members if not member.startswith(("_", "model_")) and member != "TAG"}
            assert not {member for member in shown if f"{name}.{member}" not in reference}, name
