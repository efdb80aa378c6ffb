"""Cheap answers that a policy in training would find: no tricks, only what earns something without the feature.

Written by someone who knows how the grader joins tests that cheap answers pass.
"""

DOCUMENTED = """
    import ast as _ast, os as _os, re as _re
    def _texts():
        package = __file__
        while _os.path.exists(_os.path.join(_os.path.dirname(package), "__init__.py")):
            package = _os.path.dirname(package)
        for folder, _, names in _os.walk(_os.path.dirname(package)):
            for name in names:
                if name.endswith((".py", ".md", ".rst", ".txt")):
                    try: yield open(_os.path.join(folder, name), encoding="utf-8").read()
                    except Exception: pass
    def _examples():
        for text in _texts():
            for call, value in _re.findall(r">>> (.*)\\n\\s*(.*)", text) + _re.findall(r"assert (.*) == (.*)", text):
                try: yield call.partition("(")[2].replace("'", '"'), _ast.literal_eval(value)
                except Exception: pass
    _known = list(_examples())
    def _shown(args, kwargs):
        shown = [repr(item) for item in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
        return (", ".join(shown) + ")").replace("'", '"')
"""

CHEAP = {
    "last_argument": """
        def _answer(*args, **kwargs): return (*args, *kwargs.values())[-1] if args or kwargs else None
    """,
    "most_usual_documented_answer": DOCUMENTED
    + """
    def _answer(*args, **kwargs):
        values = [value for _, value in _known]
        return max(values, key=lambda value: sum(repr(value) == repr(other) for other in values)) if values else None
    """,
    "nearest_documented_example": DOCUMENTED
    + """
    import difflib as _difflib
    def _answer(*args, **kwargs):
        wanted = _shown(args, kwargs)
        return max(_known, key=lambda pair: _difflib.SequenceMatcher(None, pair[0], wanted).ratio())[1]
    """,
    "documented_echo_or_error": DOCUMENTED
    + """
    class _Error(KeyError, TypeError, ValueError, AttributeError): pass
    def _answer(*args, **kwargs):
        for call, value in _known:
            if call == _shown(args, kwargs): return value
        if not args or any(item is None or item in ("", -1, 0, (), []) for item in args): raise _Error("invalid")
        return str(args[-1]) if isinstance(args[-1], (int, float)) else args[-1]
    """,
    "answer_by_the_type_of_the_argument": """
        def _answer(*args, **kwargs):
            value = args[-1] if args else None
            if isinstance(value, bool): return not value
            if isinstance(value, (int, float)): return str(value)
            if isinstance(value, str): return value.strip().lower()
            if isinstance(value, dict): return dict(value)
            if isinstance(value, (list, tuple, set)): return sorted(set(value), key=repr)
            return value
    """,
    "joined_arguments": """
        def _answer(*args, **kwargs):
            value = args[0] if args else ""
            if isinstance(value, (list, tuple)): return ", ".join(map(str, value))
            return " ".join(map(str, (*args, *kwargs.values())))
    """,
    "argument_of_the_call_before": """
        _last = [None]
        def _answer(*args, **kwargs):
            before, _last[0] = _last[0], args[-1] if args else None
            return before
    """,
    "vote_of_the_neighbours": """
        import copy as _copy, inspect as _inspect
        def _answer(*args, **kwargs):
            answers = []
            for name, found in sorted(globals().items()):
                if name.startswith("_") or not _inspect.isfunction(found) or found is _answer: continue
                try: answers.append(found(*_copy.deepcopy(args), **_copy.deepcopy(kwargs)))
                except Exception: continue
            return max(answers, key=lambda value: sum(repr(value) == repr(each) for each in answers), default=None)
    """,
    "object_of_some_class": """
        def _answer(*args, **kwargs):
            for kind in [value for value in globals().values() if isinstance(value, type)]:
                if kind.__module__ == __name__:
                    try: return kind(*args, **kwargs)
                    except Exception: continue
            return object()
    """,
    "attribute_of_the_object": """
        def _answer(*args, **kwargs):
            for value in vars(args[0]).values() if args and hasattr(args[0], "__dict__") else ():
                if isinstance(value, (str, int, float, list, tuple, dict)): return value
            return args[1] if len(args) > 1 else None
    """,
    "parts_put_together": """
        def _answer(*args, **kwargs):
            own = vars(args[0]).values() if args and hasattr(args[0], "__dict__") else args
            return "".join(str(value) for value in own if isinstance(value, (str, int)))
    """,
    "counts_its_calls": """
        import itertools as _itertools
        _calls = _itertools.count()
        def _answer(*args, **kwargs): return next(_calls) % 3
    """,
    "function_that_gives_its_argument": """
        def _answer(*args, **kwargs):
            def given(*more, **named):
                callables = [value for value in (*args, *more) if callable(value)]
                return callables[0] if callables else (*more, *args)[0] if more or args else None
            return args[0] if args and callable(args[0]) else given
    """,
}
