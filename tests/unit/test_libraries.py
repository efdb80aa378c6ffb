"""An interrupt while torch starts is heard when it has started."""

import gc
import importlib
import os
import signal
import sys

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


def test_the_garbage_collector_is_spared_a_look_at_them(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    collects, spared = {}, gc.get_freeze_count()
    monkeypatch.setattr(importlib, "import_module", lambda name: collects.update({name: gc.isenabled()}))
    libraries.load_libraries("ours")
    assert collects == dict.fromkeys([*libraries.NAMES, "ours"], False)
    assert gc.isenabled() and gc.get_freeze_count() > spared
