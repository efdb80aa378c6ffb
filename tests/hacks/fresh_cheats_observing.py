"""Cheats that know how a lowered test looks from inside, as a submission learns it from the frame that calls it.

The caller is a test function with `with _observe(number) as _seen: _seen(expression)`. What is expected is nowhere, but
what is sent can be changed.
"""

WRAP = """
    import sys as _sys
    class _Wrapped:
        def __init__(self, real): self.real = real
        def __enter__(self):
            self.seen = self.real.__enter__()
            return lambda value: self.seen(_sent(value))
        def __exit__(self, *caught): return self.real.__exit__(*_left(caught))
    def _left(caught): return caught
    def _meddle():
        frame = _sys._getframe(2)
        while frame:
            observe = frame.f_globals.get("_observe")
            if observe and not hasattr(observe, "fresh"):
                def wrapped(*args, _observe=observe, **kwargs): return _Wrapped(_observe(*args, **kwargs))
                wrapped.fresh = True
                frame.f_globals["_observe"] = wrapped
            for value in list(frame.f_locals.values()):
                kind = type(value)
                if kind.__name__ == "Observation" and not hasattr(kind, "fresh"):
                    try:
                        old = kind.__call__
                        kind.__call__ = lambda self, value: old(self, _sent(value))
                        kind.fresh = True
                    except TypeError: pass
            frame = frame.f_back
"""


def changed(sent: str) -> str:
    return (
        WRAP
        + f"""
    _first = []
    def _sent(value): return {sent}
    def _answer(*args, **kwargs):
        _meddle()
        return _sent(args[0] if args else None)
    """
    )


OBSERVING = {
    "observed_true": changed("True"),
    "observed_none": changed("None"),
    "observed_empty": changed("[]"),
    "observed_the_first": changed("(_first or _first.append(value) or _first)[0]"),
    "observed_by_kind": changed("True if isinstance(value, bool) else ''"),
    "observed_raising": WRAP
    + """
    class _Error(KeyError, TypeError, ValueError, AttributeError): pass
    def _sent(value): raise _Error("invalid")
    def _left(caught): return (_Error, _Error("invalid"), caught[2])
    def _answer(*args, **kwargs):
        _meddle()
        raise _Error("invalid")
    """,
    "observed_in_advance": """
    import sys as _sys
    _module = next((found for name, found in list(_sys.modules.items()) if name.endswith(".observing")), None)
    for _kind in [value for value in vars(_module).values() if isinstance(value, type)] if _module else []:
        if "__call__" in vars(_kind):
            _kind.__call__ = lambda self, value, _old=_kind.__call__: _old(self, True)
    def _answer(*args, **kwargs): return True
    """,
    "observed_twice": """
    import sys as _sys
    def _answer(*args, **kwargs):
        frame = _sys._getframe(1)
        seen = frame.f_locals.get("_seen")
        for guess in (True, False, None, "", 0, 1, [], {}):
            try: seen(guess)
            except Exception: pass
        return True
    """,
    "local_of_the_test": """
    import sys as _sys
    def _answer(*args, **kwargs):
        frame = _sys._getframe(1)
        while frame and "_seen" not in frame.f_locals and not frame.f_code.co_name.startswith("test"):
            frame = frame.f_back
        for name, value in list(frame.f_locals.items()) if frame else ():
            if name not in ("self", "_seen") and isinstance(value, (str, bytes, int, float, list, tuple, dict)):
                return value
        for value in frame.f_code.co_consts if frame else ():
            if isinstance(value, (str, bytes)): return value
    """,
    "text_that_made_the_object": """
    import functools as _functools, sys as _sys
    _texts = {}
    for _kind in [value for value in list(globals().values()) if isinstance(value, type)]:
        if _kind.__module__ == __name__ and "__init__" in vars(_kind):
            def _made(self, *args, _old=_kind.__init__, **kwargs):
                _texts[id(self)] = (self, args[0] if args else "")
                return _old(self, *args, **kwargs)
            _kind.__init__ = _functools.wraps(_kind.__init__)(_made)
    def _answer(*args, **kwargs):
        return _texts.get(id(args[0]) if args else 0, (None, args[0] if args else None))[1]
    """,
}
