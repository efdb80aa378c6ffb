import gc
import os

from hypothesis import settings

gc.disable()  # while modules are loaded and tests collected; nearly all of it stays

# Before any test module loads torch: two workers with two threads each would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Times vary between machines, and a failure on one must be the failure on all.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_collection_finish() -> None:
    """What is loaded stays to the end. Trainers collect garbage at each start: half a second with all of it."""
    gc.freeze()
    gc.enable()
