"""Tables: what of Python can be evaluated anywhere, at any time and any number of times, and gives the same."""

from __future__ import annotations

import builtins

IMMUTABLE_BUILTINS = frozenset(
    "abs all any ascii bin bool bytes chr complex divmod float format frozenset hex int isinstance issubclass len oct"
    " ord pow range repr round slice str sum tuple type".split()
)
MUTABLE_BUILTINS = frozenset("bytearray dict list max min set sorted".split())
ITERATORS = frozenset(
    "builtins.enumerate builtins.filter builtins.map builtins.reversed builtins.zip itertools.chain"
    " itertools.chain.from_iterable itertools.combinations itertools.islice itertools.permutations itertools.product"
    " itertools.repeat".split()
)
"""They can be used up, so they are known only where they are made."""
ORDERED = frozenset("builtins.list builtins.tuple builtins.sorted builtins.set builtins.frozenset".split())
"""Calls whose elements are those of their first argument."""

FIXED_MODULES = frozenset("datetime decimal fractions math re uuid".split())
"""What their functions give cannot be changed."""
PLAIN_MODULES = frozenset("base64 binascii collections html json string struct textwrap unicodedata zlib".split())
FUNCTION_MODULES = frozenset(("operator",))
IMPURE_ENDINGS = frozenset(
    "now today utcnow fromtimestamp uuid1 uuid4 getnode getcontext setcontext localcontext".split()
)

PURE_METHODS = frozenset(
    "as_tuple bit_length capitalize casefold center copy count date decode difference encode endswith"
    " expandtabs find format format_map get hex index intersection isalnum isalpha isdecimal isdigit isdisjoint"
    " islower isoformat isspace issubset issuperset istitle isupper items join keys ljust lower lstrip"
    " maketrans partition quantize removeprefix removesuffix replace rfind rindex rjust rpartition rsplit"
    " rstrip split splitlines startswith strftime strip swapcase symmetric_difference time timestamp title"
    " to_bytes total_seconds translate union upper utcoffset values weekday zfill".split()
)
FIXED_METHODS = PURE_METHODS - frozenset(
    "copy difference get intersection items keys rsplit split splitlines symmetric_difference union values".split()
)
MUTATORS = frozenset("add append clear discard extend insert pop popitem remove reverse setdefault sort update".split())

BUILTIN_NAMES = frozenset(name for name in vars(builtins) if not name.startswith("_"))
READS_ANY_NAME = frozenset("eval exec globals locals vars".split())


def pure_origin(origin: str) -> bool:
    """Whether a call of it with known arguments has one known outcome."""
    module, _, rest = origin.partition(".")
    if module == "builtins":
        return rest.split(".")[0] in IMMUTABLE_BUILTINS | MUTABLE_BUILTINS or origin in ITERATORS
    if origin in ITERATORS:
        return True
    return module in FIXED_MODULES | PLAIN_MODULES | FUNCTION_MODULES and not IMPURE_ENDINGS & set(rest.split("."))


def harmless_module(origin: str) -> bool:
    return origin.partition(".")[0] in FIXED_MODULES | PLAIN_MODULES | FUNCTION_MODULES | {"itertools"}


def gives_immutable(origin: str) -> bool:
    module, _, rest = origin.partition(".")
    return module in FIXED_MODULES or (module == "builtins" and rest in IMMUTABLE_BUILTINS)
