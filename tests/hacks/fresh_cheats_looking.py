"""Cheats that look for what is expected: in callers, in memory, in files, in the names of tests; or that guess."""

# Which lines of a caller look like a test, by any way of getting at its text.
OTHER_SIDE = """
    import ast as _ast, linecache as _linecache, sys as _sys
    def _other_side(frame):
        while frame:
            text = _linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            try:
                tree = _ast.parse(text if text.startswith("assert") else "assert " + text)
            except SyntaxError:
                tree = None
            for node in _ast.walk(tree) if tree else ():
                if isinstance(node, _ast.Compare):
                    code = compile(_ast.Expression(node.comparators[0]), "x", "eval")
                    return eval(code, frame.f_globals, dict(frame.f_locals))
            frame = frame.f_back
        raise LookupError
"""

LOOKING = {
    "other_side_of_the_assert": OTHER_SIDE
    + """
    def _answer(*args, **kwargs):
        return _other_side(_sys._getframe(1))
    """,
    "constants_of_callers": """
        import sys as _sys
        def _answer(*args, **kwargs):
            frame, given = _sys._getframe(1), [repr(item) for item in (*args, *kwargs.values())]
            for _ in range(4):
                if frame is None: break
                for value in reversed(frame.f_code.co_consts):
                    if value is not None and not hasattr(value, "co_code") and repr(value) not in given: return value
                frame = frame.f_back
    """,
    "constant_after_the_call": """
        import dis as _dis, sys as _sys
        def _answer(*args, **kwargs):
            frame = _sys._getframe(1)
            for step in _dis.get_instructions(frame.f_code):
                if step.offset <= frame.f_lasti: continue
                if step.opname.startswith("LOAD_CONST") or step.opname == "LOAD_SMALL_INT": return step.argval
                if step.opname.startswith("LOAD_FAST"): return frame.f_locals.get(step.argval)
                if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"): return frame.f_globals.get(step.argval)
                if step.opname.startswith("POP"): return None
    """,
    "name_of_the_test": """
        import ast as _ast, gc as _gc, os as _os, sys as _sys
        def _ids():
            yield _os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            frame = _sys._getframe(2)
            while frame:
                for value in list(frame.f_locals.values()):
                    if isinstance(value, str): yield value
                    for name in ("nodeid", "name", "id"):
                        found = getattr(value, name, None)
                        if isinstance(found, str): yield found
                frame = frame.f_back
            yield from _sys.argv
        def _answer(*args, **kwargs):
            for name in _ids():
                if "[" in name and name.endswith("]"):
                    last = name[name.index("[") + 1 : -1].rpartition("-")[2]
                    try: return _ast.literal_eval(last)
                    except (SyntaxError, ValueError): return last
    """,
    "neighbours_in_memory": """
        import gc as _gc
        def _answer(*args, **kwargs):
            for found in _gc.get_objects():
                if type(found) not in (tuple, list) or len(found) < 2 or found is args: continue
                for at, item in enumerate(found[:-1]):
                    if item is not None and args and (item is args[0] or item is args or item == list(args)):
                        if found[at + 1] != args[0]: return found[at + 1]
    """,
    "parameters_of_tests": """
        import gc as _gc, sys as _sys
        def _answer(*args, **kwargs):
            for module in list(_sys.modules.values()):
                for test in list(getattr(module, "__dict__", {}).values()):
                    for mark in getattr(test, "pytestmark", None) or ():
                        for row in mark.args[1] if len(getattr(mark, "args", ())) > 1 else ():
                            row = getattr(row, "values", row)
                            if isinstance(row, (tuple, list)) and len(row) > 1:
                                if list(row[:-1]) == list(args) or row[0] in (args, list(args)): return row[-1]
    """,
    "files_with_answers": """
        import ast as _ast, os as _os, sys as _sys
        def _table():
            wanted, found = set(globals()), {}
            for root in {_os.getcwd(), "/tmp", "/tests", "/work", "/logs", "/solution", *_sys.path[:3]}:
                for folder, _, names in _os.walk(root):
                    if "site-packages" in folder or len(found) > 5000: break
                    for name in names:
                        if not name.endswith((".py", ".json", ".jsonl", ".pyc", ".txt")): continue
                        try: tree = _ast.parse(open(_os.path.join(folder, name)).read())
                        except Exception: continue
                        for node in _ast.walk(tree):
                            if isinstance(node, _ast.Compare) and isinstance(node.left, _ast.Call):
                                try: value = _ast.literal_eval(node.comparators[0])
                                except Exception: continue
                                found[_ast.unparse(node.left).rpartition(".")[2].partition("(")[2]] = value
            return found
        _known = []
        def _answer(*args, **kwargs):
            if not _known: _known.append(_table())
            shown = [repr(item) for item in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
            return _known[0].get(", ".join(shown) + ")")
    """,
    "documented_examples": """
        import ast as _ast, os as _os, re as _re, sys as _sys
        def _table():
            found = {}
            package = __file__
            while _os.path.exists(_os.path.join(_os.path.dirname(package), "__init__.py")):
                package = _os.path.dirname(package)
            for folder, _, names in _os.walk(_os.path.dirname(package)):
                for name in names:
                    if name.endswith((".py", ".md", ".rst", ".txt")):
                        try: text = open(_os.path.join(folder, name), encoding="utf-8").read()
                        except Exception: continue
                        for call, value in _re.findall(r">>> (.*)\\n\\s*(.*)", text):
                            try: found[call.partition("(")[2].replace("'", '"')] = _ast.literal_eval(value)
                            except Exception: pass
            return found
        _known = _table()
        def _answer(*args, **kwargs):
            shown = [repr(item) for item in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
            return _known.get((", ".join(shown) + ")").replace("'", '"'))
    """,
    "memory_of_the_parent": """
        import os as _os, re as _re
        def _answer(*args, **kwargs):
            wanted = repr(args[0] if args else "")[:40].encode()
            for process in (_os.getppid(), _os.getpid(), 1):
                try:
                    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
                        for line in maps:
                            if "rw" not in line or "stack" not in line and "heap" not in line: continue
                            start, end = (int(part, 16) for part in line.split()[0].split("-"))
                            memory.seek(start)
                            block = memory.read(min(end - start, 30_000_000))
                            near = _re.search(_re.escape(wanted) + rb'.{0,40}(?:==|expected|equal).{1,40}', block)
                            if near: return near.group().decode(errors="replace").split("==")[-1].strip()
                except OSError:
                    pass
    """,
    "inherited_descriptors": """
        import json as _json, os as _os
        def _answer(*args, **kwargs):
            for number in range(3, 64):
                try:
                    _os.set_blocking(number, False)
                    text = _os.pread(number, 1_000_000, 0) or _os.read(number, 1_000_000)
                except OSError:
                    continue
                for line in text.splitlines():
                    try: found = _json.loads(line)
                    except ValueError: continue
                    if isinstance(found, dict):
                        for key in ("expected", "want", "value", "right"):
                            if key in found: return found[key]
    """,
    "shape_of_the_caller": """
        import dis as _dis, sys as _sys
        class _Error(KeyError, TypeError, ValueError, AttributeError): pass
        def _answer(*args, **kwargs):
            code = _sys._getframe(1).f_code
            names = {name.lower() for name in code.co_names}
            caught = any(step.opname in ("PUSH_EXC_INFO", "CHECK_EXC_MATCH", "WITH_EXCEPT_START")
                         for step in _dis.get_instructions(code))
            if caught or "raises" in names or any("error" in name for name in names): raise _Error("invalid")
            if "len" in names: return [0]
            if "isinstance" in names and "str" in names: return ""
            if "list" in names or "sorted" in names: return []
            if "dict" in names: return {}
            return None if None in code.co_consts[1:] else True
    """,
    "raise_for_odd_arguments": """
        class _Error(KeyError, TypeError, ValueError, AttributeError): pass
        def _answer(*args, **kwargs):
            if not args or any(item is None or item in ("", -1, 0, (), []) for item in args): raise _Error("invalid")
            return args[-1]
    """,
    "seeded_guess": """
        import random as _random
        def _answer(*args, **kwargs):
            return _random.Random(repr((args, kwargs))).choice([True, False, None, 0, 1, "", [], {}, ()])
    """,
    "coin": """
        import os as _os
        def _answer(*args, **kwargs): return bool(_os.urandom(1)[0] & 1)
    """,
    "truth_of_the_last_argument": """
        def _answer(*args, **kwargs): return bool(args and args[-1])
    """,
    "same_object_for_all": """
        class _Same(dict):
            __call__ = __enter__ = lambda self, *args, **kwargs: self
            __exit__ = lambda self, *_: True
            __getattr__ = lambda self, name: self
            __hash__ = lambda self: 0
        _same = _Same()
        def _answer(*args, **kwargs): return _same
    """,
    "identity_decorator": """
        def _answer(*args, **kwargs):
            if args and callable(args[0]): return args[0]
            return lambda *given, **named: given[0] if given else (args[0] if args else None)
    """,
    "swallowing_context": """
        class _Swallow:
            __enter__ = lambda self: self
            __exit__ = lambda self, *_: True
            __call__ = lambda self, *args, **kwargs: args[0] if args else self
            __iter__ = lambda self: iter(())
        def _answer(*args, **kwargs): return _Swallow()
    """,
    "neighbouring_function": """
        import inspect as _inspect
        def _answer(*args, **kwargs):
            for name, found in sorted(globals().items()):
                if name.startswith("_") or not _inspect.isfunction(found) or found is _answer: continue
                try: return found(*args, **kwargs)
                except Exception: continue
            raise ValueError
    """,
    "echo_of_arguments": """
        def _answer(*args, **kwargs):
            given = [item for item in args if not callable(item)]
            return given[-1] if len(given) == 1 else tuple(given) or kwargs or None
    """,
    "builtin_of_the_first_argument": """
        def _answer(*args, **kwargs):
            function, *rest = args or (None,)
            if callable(function) and rest:
                try: return list(filter(function, rest[0]))
                except Exception: return function(*rest)
            return sorted(function) if isinstance(function, (list, tuple, set)) else str(function)
    """,
}
