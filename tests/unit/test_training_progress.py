"""A training tells that its first step begins, and how far it is within a long one."""

from __future__ import annotations

from types import SimpleNamespace

from composer_replication.training.running import ProgressCallback
from tests.notes import Notes


class Said(Notes):
    def step(self, done, total, detail=""):
        self.said.append(f"{done}/{total} {detail}")


def test_a_step_of_several_parts_tells_each():
    said, args = Said(), SimpleNamespace(gradient_accumulation_steps=3)
    state = SimpleNamespace(global_step=4, is_world_process_zero=True)
    callback = ProgressCallback(8, said)
    callback.on_train_begin(args, state, None)
    for _ in range(2):
        callback.on_substep_end(args, state, None)
        callback.on_substep_end(args, state, None)
        state.global_step += 1
        callback.on_step_end(args, state, None)
    assert said.said[0].startswith("step 5 of 8 begins")
    assert said.said[1:] == [
        "4/8 step 5, part 1 of 3", "4/8 step 5, part 2 of 3", "5/8 step 6, part 1 of 3", "5/8 step 6, part 2 of 3",
    ]  # fmt: skip
