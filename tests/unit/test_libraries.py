"""An interrupt while torch starts is heard when it has started."""

import importlib
import os
import signal

import pytest

from composer_replication.training import libraries


def test_an_interrupt_during_imports_is_raised_after_them(monkeypatch):
    imported = []

    def interrupted(name):
        imported.append(name)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(importlib, "import_module", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            libraries.load_libraries()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert tuple(imported) == libraries.NAMES


def test_without_an_interrupt_nothing_is_raised():
    libraries.load_libraries()
