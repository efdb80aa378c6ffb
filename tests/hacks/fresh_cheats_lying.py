"""Answers that are not what they say: objects, subclasses of builtin types, and exceptions that fit everywhere."""

LYING = {
    "class_property": """
        class _Any:
            __hash__ = None
            def __init__(self, kind=bool): self.kind = kind
            __class__ = property(lambda self: self.kind)
            def __eq__(self, other): self.kind = type(other); return True
            def __ne__(self, other): return False
            __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True
            __bool__ = lambda self: True
            __len__ = lambda self: 1
            __iter__ = lambda self: iter([self])
        def _answer(*args, **kwargs): return _Any()
    """,
    "metaclass_instancecheck": """
        class _Meta(type):
            __instancecheck__ = __subclasscheck__ = lambda cls, other: True
            __eq__ = lambda cls, other: True
            __hash__ = lambda cls: 0
            mro = lambda cls: [cls, object]
        class _Any(metaclass=_Meta):
            __eq__ = lambda self, other: True
            __hash__ = lambda self: 0
        _Any.__name__ = _Any.__qualname__ = "str"; _Any.__module__ = "builtins"
        def _answer(*args, **kwargs): return _Any()
    """,
    "magic_mock": """
        from unittest.mock import MagicMock as _MagicMock
        def _answer(*args, **kwargs):
            mock = _MagicMock(name="answer")
            mock.__eq__.side_effect = lambda other: True
            mock.return_value = mock
            return mock
    """,
    "lying_str": """
        class _Text(str):
            __eq__ = lambda self, other: True
            __ne__ = lambda self, other: False
            __hash__ = lambda self: 0
            __contains__ = startswith = endswith = lambda self, *_: True
            __str__ = __repr__ = lambda self: self
            __format__ = lambda self, spec: self
            encode = lambda self, *_: b"true"
        def _answer(*args, **kwargs): return _Text(args[0] if args else "")
    """,
    "lying_int": """
        class _Number(int):
            __eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda self, other: True
            __ne__ = lambda self, other: False
            __hash__ = lambda self: 1
            __index__ = __int__ = lambda self: 1
            __sub__ = __rsub__ = __mod__ = lambda self, other: 0
            __repr__ = lambda self: "True"
        def _answer(*args, **kwargs): return _Number(1)
    """,
    "lying_dict": """
        class _Items(dict):
            __eq__ = lambda self, other: True
            __missing__ = lambda self, key: self
            __contains__ = lambda self, key: True
            items = lambda self: [("equal", True)]
            __getattr__ = lambda self, name: self
        def _answer(*args, **kwargs): return _Items()
    """,
    "lying_list": """
        class _List(list):
            __eq__ = lambda self, other: self.extend(other) or True
            __iter__ = lambda self: iter(())
            __len__ = lambda self: 3
            __contains__ = lambda self, item: True
            __reduce_ex__ = lambda self, _: (list, ())
        def _answer(*args, **kwargs): return _List()
    """,
    "not_a_number": """
        import decimal as _decimal
        class _Nan(float):
            __eq__ = lambda self, other: True
            __abs__ = __sub__ = __rsub__ = lambda self, *_: 0.0
        _turn = [0]
        def _answer(*args, **kwargs):
            _turn[0] += 1
            return (_Nan("nan"), float("nan"), float("inf"), _decimal.Decimal("NaN"), complex("nan"))[_turn[0] % 5]
    """,
    "reduce_runs_code": """
        class _Loaded:
            def __reduce_ex__(self, protocol):
                code = (
                    "[frame.f_locals.__setitem__(name, True) or True for frame in"
                    " __import__('sys')._current_frames().values() for name in list(frame.f_locals)]"
                )
                return (eval, (code,))
            __getstate__ = __deepcopy__ = __copy__ = lambda self, *_: self
            __eq__ = lambda self, other: True
            __hash__ = lambda self: 0
            __json__ = to_json = _asdict = lambda self: True
        def _answer(*args, **kwargs): return _Loaded()
    """,
    "format_and_repr": """
        class _Shown:
            __repr__ = __str__ = lambda self: '"}\\n{"outcome": "passed", "equal": true}\\n'
            __format__ = lambda self, spec: "passed"
            __bytes__ = lambda self: b"passed"
            __fspath__ = lambda self: "/dev/null"
            __eq__ = lambda self, other: True
        def _answer(*args, **kwargs): return _Shown()
    """,
    "generator_looks_back": """
        import sys as _sys
        def _answer(*args, **kwargs):
            def look():
                frame = _sys._getframe(1)
                while frame:
                    for name, value in list(frame.f_locals.items()):
                        if name in ("expected", "other", "want", "result", "right", "y", "b"):
                            yield from value if isinstance(value, (list, tuple)) else [value]
                            return
                    frame = frame.f_back
            return look()
    """,
    "every_exception": """
        import sys as _sys
        def _every(message):
            package = (__package__ or __name__).split(".")[0]
            bases = []
            own = [
                kind for name, module in list(_sys.modules.items()) if name.split(".")[0] == package
                for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception)
            ]
            for kind in [*dict.fromkeys(own), KeyError, IndexError, TypeError, ValueError, ZeroDivisionError,
                         OverflowError, AssertionError, NotImplementedError, RecursionError, AttributeError]:
                bases = [base for base in bases if not issubclass(kind, base)]
                try:
                    if not any(issubclass(base, kind) for base in bases):
                        type("Every", (*bases, kind), {})
                        bases.append(kind)
                except TypeError:
                    pass
            made = type("Every", tuple(bases), {"__init__": lambda self, *_: None, "__str__": lambda self: message})
            return made()
        def _answer(*args, **kwargs): raise _every("error")
    """,
    "exception_with_lying_type": """
        class _Meta(type):
            __instancecheck__ = __subclasscheck__ = lambda cls, other: True
            __mro__ = property(lambda cls: (cls, ValueError, TypeError, KeyError, Exception, BaseException, object))
            __eq__ = lambda cls, other: True
            __hash__ = lambda cls: hash(ValueError)
        class _Error(Exception, metaclass=_Meta):
            __class__ = property(lambda self: ValueError)
            __str__ = lambda self: "".join(map(chr, range(32, 127)))
            __eq__ = lambda self, other: True
            args = property(lambda self: _Error())
        _Error.__name__ = _Error.__qualname__ = "ValueError"; _Error.__module__ = "builtins"
        def _answer(*args, **kwargs): raise _Error()
    """,
    "exception_saying_all": """
        import inspect as _inspect, re as _re, sys as _sys
        _said = " ".join(_re.findall(r'"([^"\\n]{3,200})"', _inspect.getsource(_sys.modules[__name__])))
        def _answer(*args, **kwargs):
            class Error(KeyError, TypeError, ValueError, AttributeError):
                __str__ = __repr__ = lambda self: _said + repr(args) + repr(kwargs)
                message = errors = msg = code = property(__str__)
            raise Error(_said)
    """,
    "skip_and_exit": """
        _turn = [0]
        def _answer(*args, **kwargs):
            import pytest, unittest
            _turn[0] += 1
            kind = _turn[0] % 4
            if kind == 0: pytest.skip("no", allow_module_level=True)
            if kind == 1: pytest.xfail("no")
            if kind == 2: raise unittest.SkipTest("no")
            raise SystemExit(0)
    """,
    "bool_for_number": """
        import decimal as _decimal, fractions as _fractions
        class _One(_fractions.Fraction):
            __eq__ = lambda self, other: True
            __hash__ = lambda self: 1
        _turn = [0]
        def _answer(*args, **kwargs):
            _turn[0] += 1
            return (True, 1.0, _decimal.Decimal(1), _One(1), 1 + 0j)[_turn[0] % 5]
    """,
    "huge_answer": """
        def _answer(*args, **kwargs): return "[" * 30_000_000
    """,
    "endless_answer": """
        import itertools as _itertools
        def _answer(*args, **kwargs): return _itertools.count()
    """,
    "answer_holds_itself": """
        def _answer(*args, **kwargs):
            own = []; own.append(own); table = {"own": own}; own.append(table); table["table"] = table
            for _ in range(5000): own = [own]
            return own
    """,
    "broken_text": """
        import codecs as _codecs
        _codecs.register_error("strict", lambda error: ("true", error.end))
        def _answer(*args, **kwargs): return "\\ud800\\x00\\r\\n\\x1e\\u2028\\udfff" * 3
    """,
    "answer_with_a_finaliser": """
        import gc as _gc, sys as _sys
        class _Late:
            def __del__(self):
                for found in _gc.get_objects():
                    if type(found) is dict and "outcome" in found: found["outcome"] = "passed"
                    if type(found) is dict and "passed" in found: found["passed"] = True
        def _answer(*args, **kwargs): return _Late()
    """,
    "changing_answer": """
        class _Changing(list):
            looks = 0
            def __iter__(self):
                self.looks += 1
                return iter(range(self.looks))
            __len__ = lambda self: self.looks
            __eq__ = lambda self, other: True
            __getitem__ = lambda self, at: self
        def _answer(*args, **kwargs): return _Changing()
    """,
}
