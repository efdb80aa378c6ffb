"""Sphinx: the Markdown of this repository and the API reference as one site that needs no network. `make docs`."""

import gc
import inspect
import pydoc
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.util.matching import patfilter

import composer_replication.config  # noqa: F401  before autodoc, which loads modules in a way of its own

DOCS = {
    "Start": ["quickstart", "your-sessions", "your-repository", "from-python", "own-environment", "glossary"],
    "What is known": ["evidence", "evidence-details", "results", "results-details", "recipe", "benchmarks", "promises"],
    "Sessions": ["ingestion", "scale", "sites", "hints", "long-sessions"],
    "Teachers": ["teachers", "replay", "pairs"],
    "Environments": ["environments", "toolbox", "foreign-environments"],
    "Code tasks": [
        *("code-tasks", "generators", "grading", "cheats", "sandbox", "serving", "harness", "code-tasks-measured"),
    ],
    "The monitor": ["monitor", "monitor-measured"],
    "Training": [
        "training",
        "rollouts",
        "models",
        "plan",
        "training-cost",
        "several-processes",
        "engines",
        "engines/*",
    ],
    "Looking and comparing": ["viewer", "comparing", "artefacts", "queries", "tables"],
    "Reference": ["configuration", "reference", "reference-*"],
}
SECTIONS = {
    **{title: [f"docs/{page}" for page in pages] for title, pages in DOCS.items()},
    "Runs that were made": [
        *("experiments/README", "experiments/*", "experiments/*/README", "recipes/README", "recipes/*/README"),
    ],
    "Inside": ["CONTRIBUTING", "SECURITY", "CHANGELOG", "design/*", "benchmarks/README"],
    "Raw": [
        "experiments/*/*",
        "experiments/*/results/*",
        "experiments/*/results/*/*",
        "tests/golden/templates/SOURCES",
    ],
}
"""A page stands in the first section that names it, and nowhere else; Sphinx warns of one that stands in none."""

# Arguments that mean the same wherever they occur, or wherever they have this type, for functions whose docstring does
# not name them.
ARGUMENTS = {
    "a": "An action, as text.",
    "action": "A turn in one spelling, as `student_action` is.",
    "b": "Another action.",
    "batch: Mapping[str, Tensor]": "What the collator made of stored traces.",
    "beta": "0 is KL(teacher‖student), 1 is KL(student‖teacher), in between the generalised Jensen-Shannon divergence.",
    "candidates": "A rollout, what the hinter said of one of its turns, and that turn behind its hint.",
    "changed": "Settings of the channels to replace.",
    "charge": "Of each rollout.",
    "chat_template": "In place of the tokenizer's own.",
    "chat_template_kwargs": "Settings of the chat template, such as `enable_thinking`.",
    "chunk_tokens": "Tokens whose logits are in memory at a time; None: as many as fit a fixed size.",
    "columns": "All other columns of the rollouts, as TRL hands them to a reward function.",
    "context: Sequence[int]": "Ids of all that stands before the turn.",
    "context_ids": "Ids of all that stands before the turn.",
    "critical": "Also accept agreement on everything but arguments that only describe a call.",
    "enable_raw_error": "Whether the text of the error may be a hint.",
    "environ": "Environment variables; secrets among their values are known everywhere. None: those of this process.",
    "episode_reward": "The environment's reward of each rollout.",
    "equivalent": "Whether two actions have the same effect at a state, as an environment says.",
    "error_kind": "One of `ErrorKind`, or a kind of your own.",
    "error_meta": "Facts of the error by name, as `context_of` gives them.",
    "first": "Gradients, parameter by parameter.",
    "found": "Pairs as they were voted.",
    "free_text": "Let answers without a call vote too; they must be equal but for blanks.",
    "generator": "Torch's random generator; None: the global one.",
    "history": "The messages so far.",
    "index": "Number of the task in its split.",
    "input_ids_BT": "Token ids of the rows.",
    "judge": "Asked where no template can speak, for style, communication and effort.",
    "kind: type[AnySettings]": "The class of its settings.",
    "labels_N": "Token ids.",
    "layers": "Asked in this order.",
    "limit: int | None": "The most that are given; None: all.",
    "log_metric": "Takes a name and a number for TRL's log.",
    "logits_BTV": "Logits of whole rows.",
    "logits_NV": "Logits that predict the labels.",
    "max_leak_level": "How much a hint may give away: L0 the error only, L1 facts in the context, L2 the answer.",
    "max_new_tokens": "The most that is written.",
    "max_tokens": "The longest hint, in words and punctuation marks.",
    "max_turn_tokens": "The most that the policy writes in one turn.",
    "message: str": "What happened.",
    "messages": "The conversation so far.",
    "model: Any": "A causal language model of `transformers`.",
    "next_command": "The one command that helps.",
    "personal": "Whether home directories and e-mail addresses are searched for too.",
    "prompts": "Those of the dataset, one for each rollout.",
    "rank": "Number of this process, where there are several.",
    "record_type": "The class that lines are read as.",
    "replies": "Answers of all teachers.",
    "sample": "Number of the rollout among those of its task; it goes into the id of the trace.",
    "second": "Gradients of the same parameters.",
    "seed": "Seed of the random generators.",
    "sibling": "Asked first: another attempt at the same task that succeeded.",
    "source_model": "Name of the model that wrote the turns.",
    "start: int": "Number of the first task.",
    "state: dict[str, Any]": "What `state()` returned.",
    "student_NV": "Logits of the student.",
    "student_logits_NV": "Logits of the student.",
    "teacher_NV": "Logits of the teacher.",
    "teacher_bias_V": "As the student's.",
    "teacher_hidden_NH": "As the student's; no gradient reaches them.",
    "teacher_logits": "As the student's; no gradient reaches them.",
    "teacher_logits_NV": "Logits of the teacher.",
    "teacher_weight_VH": "As the student's; no gradient reaches it.",
    "temperature": "Logits are divided by it.",
    "token_clip": "Tokens whose divergence is above this are scaled down to it. None: as they are.",
    "tools": "Listed tools, as OpenAI lists them.",
    "top_k": "Compare the union of both top-k sets and one bucket for the rest. None: the whole vocabulary.",
    "trainer": "The trainer that asks.",
    "turn: int": "Number of the turn, from 0.",
    "turn: str": "What the policy wrote, without its thoughts.",
    "turn_ids": "Ids of one turn.",
}
TITLES = {}  # of each page, when all have been read
MOST_SHOWN = 60  # characters of a default
gc.set_threshold(100_000, 50)  # pages are trees of many nodes, most of which stay

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
autodoc_default_options = {
    "undoc-members": True,
    "member-order": "bysource",
    "special-members": "__call__",
}
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
# A type of ours that a signature names must be in the reference; type variables have no entry.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!composer_replication\.).*|.*\.(Any[A-Z]\w+|E)")]
default_role = "code"
# Shell lines with JSON in them; tables of raw results, which have no title.
suppress_warnings = ["misc.highlighting_failure", "toc.no_title", "myst.header"]


def add_contents(app, name, source):
    """The README is the first page; on GitHub it needs no table of contents."""
    if name == root_doc:
        app.env.note_reread()  # a page may come or go
        left = sorted(app.env.found_docs)
        for title, patterns in SECTIONS.items():
            pages = [page for pattern in patterns for page in patfilter(left, pattern)]
            left = [page for page in left if page not in pages]
            entries = "\n".join(f"/{page}" for page in dict.fromkeys(pages))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n"


def titles_of(toc):
    """A page's first heading, as the list of all pages needs no other; its own lists of pages stay."""
    if next(toc.findall(addnodes.toctree), None):
        return toc
    return nodes.bullet_list("", *(nodes.list_item("", item[0].deepcopy()) for item in toc[:1]))


def list_pages_quickly(app, name, template, context, doctree):
    """Sphinx would copy every heading of every page for each page, before it leaves them out."""
    whole, listed = app.env.tocs, context["toctree"]
    if not TITLES:
        TITLES.update((page, titles_of(toc)) for page, toc in whole.items())

    def toctree(**options):
        app.env.tocs = TITLES if options.get("titles_only") else whole
        try:
            return listed(**options)
        finally:
            app.env.tocs = whole

    context["toctree"] = toctree


def as_markdown(app, what, name, obj, options, lines):
    """Docstrings are close to Markdown: `|` is a bar, and what is indented stands as it is."""
    told, inside = [], False
    for line in lines:
        begins = line.startswith("    ") and not inside and not (told and told[-1].strip())
        told += ["::", ""] if begins else []
        inside = begins or (inside and (not line.strip() or line.startswith("    ")))
        told.append(line if inside else line.replace("|", "\\|"))
    lines[:] = told


def has_fields(obj):
    """Whether a class is made of its fields, which are listed below it."""
    return inspect.isclass(obj) and (
        any(hasattr(obj, mark) for mark in ("__dataclass_fields__", "_fields", "model_fields", "__required_keys__"))
        or getattr(obj, "_is_protocol", False)
    )


def tell_default(app, what, name, obj, options, lines):
    """Of a field of a record, a section or a named tuple; autodoc knows only those of dataclasses."""
    owner, _, field = name.rpartition(".")
    kind = pydoc.locate(owner) if what == "attribute" else None
    settings = {name: entry for name, entry in getattr(kind, "model_fields", {}).items() if not entry.is_required()}
    defaults = {name: entry.get_default(call_default_factory=True) for name, entry in settings.items()}
    defaults |= getattr(kind, "_field_defaults", {})
    lines[:] = [line for line in lines if not line.startswith("Alias for field number")]
    if field in defaults and len(shown := repr(defaults[field])) <= MOST_SHOWN:
        lines[:] = f"{' '.join(lines)} Default: ``{shown}``.".strip().splitlines()


def explain_arguments(app, what, name, obj, options, lines):
    """Those under `Args:`, and those that the docstring does not name, from `ARGUMENTS`."""
    function = obj.__init__ if inspect.isclass(obj) else obj
    if not inspect.isroutine(function) or not hasattr(function, "__code__") or has_fields(obj):
        return
    start = lines.index("Args:") if "Args:" in lines else len(lines)
    told = {
        name: ARGUMENTS.get(f"{name}: {argument.annotation}") or ARGUMENTS.get(name)
        for name, argument in inspect.signature(function).parameters.items()
        if f"`{name}`" not in "\n".join(lines[:start])
    }
    told |= re.findall(r"^    \*?(\w+): ((?:.|\n     +)*)", "\n".join(lines[start:]), re.MULTILINE)
    told = [f":param {name}: {' '.join(said.split())}" for name, said in told.items() if said]
    lines[start:] = ["", *told]


def plain_signature(app, what, name, obj, options, signature, returns):
    """Without fields, which are listed below, and with functions by their names."""
    if not signature or has_fields(obj):
        return ("", None) if signature else None
    return re.sub(r"<function <lambda>>", "...", re.sub(r"<function (\w+)>", r"\1", signature)), returns


def skip(app, what, name, obj, skipped, options):
    """Constants of a module without a word, and what only libraries use."""
    silent = what == "module" and not (inspect.isclass(obj) or inspect.isroutine(obj))
    return True if name in ("model_config", "TAG") or (silent and not skipped) else None


def setup(app):
    app.connect("source-read", add_contents)
    app.connect("html-page-context", list_pages_quickly, priority=400)  # before the theme's
    app.connect("autodoc-process-docstring", tell_default)
    app.connect("autodoc-process-docstring", explain_arguments)
    app.connect("autodoc-process-docstring", as_markdown)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("autodoc-skip-member", skip)
