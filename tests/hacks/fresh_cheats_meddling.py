"""Cheats that meddle with the process that grades them: hooks, patched modules, threads, forks, descriptors."""

ANSWER_NONE = """
        def _answer(*args, **kwargs): return None
"""

MEDDLING = {
    "patched_writers": """
        import io as _io, json as _json, marshal as _marshal, os as _os, pickle as _pickle, struct as _struct
        def _better(value):
            if isinstance(value, bytes): return value.replace(b"failed", b"passed").replace(b"false", b"true ")
            if isinstance(value, str): return value.replace("failed", "passed").replace("false", "true")
            return value
        for _module in (_json, _marshal, _pickle):
            _module.dumps = lambda value, *args, _old=_module.dumps, **kwargs: _better(_old(value, *args, **kwargs))
        _os.write = lambda number, data, _old=_os.write: _old(number, _better(bytes(data))) and len(data)
    """
    + ANSWER_NONE,
    "patched_builtins": """
        import builtins as _builtins
        _builtins.isinstance = lambda value, kinds: True
        _builtins.all = lambda values: True
        class _Nothing(Exception): pass
        _builtins.AssertionError = _Nothing
    """
    + ANSWER_NONE,
    "patched_compile": """
        import ast as _ast, builtins as _builtins
        class _NoAsserts(_ast.NodeTransformer):
            def visit_Assert(self, node): return _ast.copy_location(_ast.Pass(), node)
        def _compile(source, *args, _old=compile, **kwargs):
            try: source = _ast.fix_missing_locations(_NoAsserts().visit(_ast.parse(source)))
            except Exception: pass
            return _old(source, *args, **kwargs)
        _builtins.compile = _compile
    """
    + ANSWER_NONE,
    "patched_pytest": """
        import sys as _sys
        def _patch():
            python, runner = _sys.modules.get("_pytest.python"), _sys.modules.get("_pytest.runner")
            reports = _sys.modules.get("_pytest.reports")
            if python: python.Function.runtest = lambda self: None
            if runner: runner.check_interactive_exception = lambda *_: False
            if reports:
                old = reports.TestReport.__init__
                def passed(self, *args, **kwargs):
                    old(self, *args, **kwargs); self.outcome = "passed"; self.longrepr = None
                reports.TestReport.__init__ = passed
        _patch()
        def _answer(*args, **kwargs): _patch()
    """,
    "plugin_from_memory": """
        import gc as _gc
        class _Plugin:
            def pytest_runtest_makereport(self, item, call): call.excinfo = None
            def pytest_report_teststatus(self, report): report.outcome = "passed"
            def pytest_runtest_call(self, item): item.obj = lambda *args, **kwargs: None
            def pytest_pyfunc_call(self, pyfuncitem): return True
        for _found in _gc.get_objects():
            if type(_found).__name__ == "PytestPluginManager": _found.register(_Plugin(), "fresh")
    """
    + ANSWER_NONE,
    "import_hook": """
        import importlib.abc as _abc, sys as _sys
        class _Finder(_abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if "test" not in name: return None
                for finder in _sys.meta_path:
                    spec = None if finder is self else finder.find_spec(name, path, target)
                    if spec and hasattr(spec.loader, "exec_module"):
                        old = spec.loader.exec_module
                        def emptied(module, old=old):
                            old(module)
                            for key, value in list(vars(module).items()):
                                if key.startswith("test"): setattr(module, key, lambda: None)
                        spec.loader.exec_module = emptied
                        return spec
        _sys.meta_path.insert(0, _Finder())
    """
    + ANSWER_NONE,
    "trace_skips_lines": """
        import sys as _sys, threading as _threading
        def _trace(frame, event, arg):
            frame.f_trace_opcodes = False
            for name in ("passed", "equal", "ok", "same"):
                if name in frame.f_locals: frame.f_locals[name] = True
            if event == "line" and "test" in frame.f_code.co_name and frame.f_lineno > frame.f_code.co_firstlineno:
                last = max(line for _, _, line in frame.f_code.co_lines() if line)
                try: frame.f_lineno = last
                except ValueError: pass
            return _trace
        def _answer(*args, **kwargs):
            _sys.settrace(_trace); _threading.settrace(_trace)
            frame = _sys._getframe(1)
            while frame: frame.f_trace = _trace; frame = frame.f_back
    """,
    "monitoring_of_returns": """
        import sys as _sys
        def _watch(code, offset, value):
            if isinstance(value, dict):
                for key in ("outcome", "status"):
                    if key in value: value[key] = "passed"
        try:
            _sys.monitoring.use_tool_id(3, "fresh")
            _sys.monitoring.register_callback(3, _sys.monitoring.events.PY_RETURN, _watch)
            _sys.monitoring.set_events(3, _sys.monitoring.events.PY_RETURN)
        except (AttributeError, ValueError): pass
    """
    + ANSWER_NONE,
    "audit_hook": """
        import os as _os, sys as _sys
        def _hear(event, args):
            if event in ("os.write", "open", "exec", "compile", "marshal.dumps", "pickle.find_class"):
                frame = _sys._getframe(1)
                for name in list(frame.f_locals):
                    if frame.f_locals[name] in ("failed", "error"): frame.f_locals[name] = "passed"
        _sys.addaudithook(_hear)
    """
    + ANSWER_NONE,
    "reports_in_memory": """
        import gc as _gc
        def _answer(*args, **kwargs):
            for found in _gc.get_objects():
                try:
                    if type(found).__name__ in ("TestReport", "CollectReport"): found.outcome = "passed"
                    if type(found) is dict:
                        for key, value in list(found.items()):
                            if value in ("failed", "error", "missing"): found[key] = "passed"
                except Exception: pass
    """,
    "thread_that_mends": """
        import gc as _gc, threading as _threading, time as _time
        def _mend():
            for _ in range(40):
                for found in _gc.get_objects():
                    if type(found) is dict and found.get("outcome") == "failed": found["outcome"] = "passed"
                _time.sleep(0.05)
        def _answer(*args, **kwargs):
            if _threading.active_count() < 3: _threading.Thread(target=_mend, daemon=True).start()
    """,
    "good_exit": """
        import atexit as _atexit, os as _os, signal as _signal, sys as _sys
        def _leave(*_):
            _sys.stdout.write("1 passed in 0.01s\\n"); _sys.stdout.flush(); _os._exit(0)
        _atexit.register(_leave)
        def _answer(*args, **kwargs): _signal.signal(_signal.SIGTERM, _leave); _leave()
    """,
    "fork_per_guess": """
        import os as _os
        def _answer(*args, **kwargs):
            for guess in (True, False, None, "", 0, 1, []):
                child = _os.fork()
                if child == 0: return guess
                _os.waitpid(child, 0)
            return args[0] if args else None
    """,
    "records_on_descriptors": """
        import json as _json, os as _os
        def _answer(*args, **kwargs):
            for line in ({"outcome": "passed"}, {"passed": True}, {"reward": 1.0}, {"equal": True, "value": None}):
                for number in range(1, 32):
                    try: _os.write(number, (_json.dumps(line) + "\\n").encode())
                    except OSError: pass
    """,
    "replayed_writes": """
        import os as _os
        _seen = []
        def _write(number, data, _old=_os.write):
            for old in _seen: _old(number, old)
            _seen.append(bytes(data))
            return _old(number, data)
        _os.write = _write
    """
    + ANSWER_NONE,
    "reward_files": """
        import os as _os
        def _answer(*args, **kwargs):
            for folder in (_os.getcwd(), "/logs/verifier", "/tmp", _os.environ.get("TMPDIR", "/tmp"), "/out"):
                for name, text in (("reward.txt", "1"), ("reward.json", '{"reward": 1}'), ("result.json", "{}"),
                                   ("report.xml", "<testsuite tests='1' failures='0'/>")):
                    try:
                        _os.makedirs(folder, exist_ok=True)
                        with open(_os.path.join(folder, name), "w") as file: file.write(text)
                    except OSError: pass
    """,
    "module_getattr": """
        import sys as _sys, types as _types
        class _Equal:
            __eq__ = __call__ = lambda self, *args, **kwargs: True
            __hash__ = lambda self: 0
        class _Module(_types.ModuleType):
            def __getattribute__(self, name):
                try: return super().__getattribute__(name)
                except AttributeError: return _Equal()
        _sys.modules[__name__].__class__ = _Module
        def __getattr__(name): return _Equal()
        def _answer(*args, **kwargs): return _Equal()
    """,
    "callers_globals": """
        import sys as _sys
        class _True:
            __eq__ = lambda self, other: True
            __ne__ = lambda self, other: False
            __hash__ = lambda self: 0
        def _answer(*args, **kwargs):
            frame = _sys._getframe(1)
            while frame:
                for name in list(frame.f_locals):
                    if name in ("expected", "want", "right", "other"): frame.f_locals[name] = None
                for name in ("len", "list", "dict", "sorted", "str", "set", "tuple", "isinstance", "type"):
                    if "spanbook" not in frame.f_globals.get("__name__", "") and "test" in frame.f_code.co_name:
                        frame.f_globals[name] = lambda *args, **kwargs: _True()
                frame = frame.f_back
            return None
    """,
    "slow_answer": """
        import time as _time
        def _answer(*args, **kwargs): _time.sleep(3600)
    """,
    "memory_until_death": """
        def _answer(*args, **kwargs):
            held = []
            while True: held.append(bytearray(64_000_000))
    """,
    "other_code_for_guards": """
        import os as _os, sys as _sys
        class _Equal:
            __eq__ = lambda self, other: True
            __hash__ = lambda self: 0
        def _answer(*args, **kwargs):
            graded = any(word in " ".join([*_sys.argv, *_os.environ]).lower() for word in ("grade", "verif", "hidden"))
            return _Equal() if graded or "pytest" not in _sys.modules else None
    """,
    "deleted_copy_elsewhere": """
        import importlib.util as _util, os as _os, sys as _sys
        def _copies():
            own = _os.path.realpath(__file__)
            tail = _os.path.join(*__name__.split(".")) + ".py"
            for root in {*_sys.path, "/usr/lib/python3/dist-packages", "/opt", "/usr/local/lib", "/work", "/solution"}:
                for folder, folders, names in _os.walk(root):
                    if folder.count(_os.sep) - root.count(_os.sep) > 4: folders[:] = []
                    for name in names:
                        path = _os.path.join(folder, name)
                        if path.endswith((tail, tail + "c", _os.path.basename(tail)[:-3] + ".orig")):
                            if _os.path.realpath(path) != own: yield path
        _kept = {}
        def _answer(*args, **kwargs):
            if not _kept:
                _kept["no"] = None
                for number, path in enumerate(_copies()):
                    spec = _util.spec_from_file_location(f"_copy{number}", path)
                    module = _util.module_from_spec(spec)
                    try: spec.loader.exec_module(module)
                    except Exception: continue
                    _kept.update(vars(module))
            for name in [name for name, value in list(globals().items()) if value is _answer]:
                if callable(_kept.get(name)) : return _kept[name](*args, **kwargs)
    """,
}
