"""Sphinx: the Markdown of this repository and the API reference as one site that needs no network. `make docs`."""

import composer_replication.config  # noqa: F401  before autodoc, which loads modules in a way of its own

SECTIONS = {
    "Start": [
        *("docs/quickstart", "docs/your-sessions", "docs/your-repository", "docs/from-python"),
        *("docs/reference", "docs/glossary"),
    ],
    "Pages": ["docs/[!s]*", "docs/s*", "docs/engines/*"],
    "Runs that were made": [
        "docs/results",
        "experiments/*/README",
        "experiments/*",
        "recipes/README",
        "recipes/*/README",
    ],
    "Inside": ["CONTRIBUTING", "SECURITY", "CHANGELOG", "design/*", "benchmarks/README"],
    "Raw": [
        "experiments/*/*",
        "experiments/*/results/*",
        "experiments/*/results/*/*",
        "tests/golden/templates/SOURCES",
    ],
}

project = "composer-replication"
html_title = project
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "README"
include_patterns = [
    *("*.md", "docs/**.md", "design/*.md", "recipes/**.md", "experiments/**.md"),
    *("benchmarks/README.md", "tests/golden/templates/SOURCES.md"),
]
html_theme = "furo"
myst_heading_anchors = 4
autodoc_typehints = "none"
autodoc_default_options = {"show-inheritance": True}
autodoc_inherit_docstrings = False
default_role = "code"
# Shell lines with JSON in them; tables of raw results, which have no title.
suppress_warnings = ["misc.highlighting_failure", "toc.no_title", "myst.header"]


def add_contents(app, name, source):
    """The README is the first page; on GitHub it needs no table of contents."""
    if name == root_doc:
        for title, pages in SECTIONS.items():
            entries = "\n".join(f"/{page}" for page in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {title}\n\n{entries}\n```\n"


def as_markdown(app, what, name, obj, options, lines):
    """Docstrings are close to Markdown: `|` is a bar, and what is indented stands as it is."""
    told, inside = [], False
    for line in lines:
        begins = line.startswith("    ") and not inside and not (told and told[-1].strip())
        told += ["::", ""] if begins else []
        inside = begins or (inside and (not line.strip() or line.startswith("    ")))
        told.append(line if inside else line.replace("|", "\\|"))
    lines[:] = told


def setup(app):
    app.connect("source-read", add_contents)
    app.connect("autodoc-process-docstring", as_markdown)
