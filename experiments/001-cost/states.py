"""Fifty made-up states of a coding agent, 250 to 500 tokens each, as the origin's spike had them."""

import random

from composer_replication.records import Source, Trace, Turn, canonical_json

SYSTEM = "You are a coding agent in a repository. Call one tool per turn. Read before you edit, and run the tests."
TOOLS = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": what,
            "parameters": {"type": "object", "properties": {key: {"type": "string"} for key in keys}},
        },
    }
    for name, what, keys in (
        ("read_file", "Read a file.", ("path",)),
        ("edit_file", "Replace a text in a file.", ("path", "old", "new")),
        ("run", "Run a shell command.", ("command",)),
    )
)
PROJECTS = ("django", "sympy", "flask", "requests", "pytest", "astropy", "sphinx", "xarray", "seaborn", "pylint")
FAULTS = (
    "a comparison uses <= where the upper bound is exclusive",
    "the default argument is a list that every call shares",
    "an empty iterable raises IndexError in place of returning None",
    "the cache key leaves out the locale",
    "the timezone is dropped when the date is parsed",
)


def synthetic_traces(number: int = 50) -> list[Trace]:
    return [_trace(index, random.Random(index)) for index in range(number)]


def _trace(index: int, rng: random.Random) -> Trace:
    """One decision point: an issue, one or two calls with their results, and the turn that is to be written."""
    project, fault = rng.choice(PROJECTS), rng.choice(FAULTS)
    path = f"{project}/core/{rng.choice(('utils', 'fields', 'handlers', 'models'))}.py"
    issue = (
        f"Issue #{rng.randrange(1000, 9999)} of {project}: {fault}, in `{path}`. Mend it so that the hidden tests pass."
    )
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": issue}]
    for number in range(rng.randint(1, 2)):
        lines = [f"{rng.randrange(9, 400):>4}  {rng.choice(CODE)}" for _ in range(rng.randint(2, 3))]
        call = {"name": "read_file", "arguments": canonical_json({"path": path})}
        messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(lines)},
        ]
    start = len(messages)
    call = {"name": "run", "arguments": canonical_json({"command": f"pytest {project} -q"})}
    messages.append(
        {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "type": "function", "function": call}]}
    )
    return Trace(
        trace_id=f"synthetic-{index}",
        source=Source(agent="synthetic"),
        messages=tuple(messages),
        turns=(Turn(start=start, end=start + 1),),
        tools=TOOLS,
    )


CODE = (
    "def resolve(self, value, default=[]):",
    "    if not value or value <= self.upper:",
    "        return self.cache.get(key(value))",
    "    for item in sorted(values, key=len)[0]:",
    "        raise ValueError(f'unknown field {name}')",
    "    parsed = datetime.fromisoformat(text).replace(tzinfo=None)",
    "    return {**options, 'handler': default}",
)
