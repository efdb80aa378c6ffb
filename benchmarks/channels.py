"""What channels 2 and 3 add to the forward and backward pass of GRPO; generation is left out.

    python benchmarks/channels.py [--json PATH]              a small model, on whatever device there is
    python benchmarks/channels.py --shape smollm2 --rows 20 --passes 3 --tokens 2048     the published figures, one H200

A step is `--passes` forward and backward passes over `--rows` trajectories each. One error site per five trajectories,
in turns of 64 tokens; 16 pairs per pass. Weights are random: times do not depend on them. Every variant is measured in
turn, round after round, and the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox.oracle import vocabulary
from composer_replication.objective import SdpoSettings
from composer_replication.training import ComposerDataCollator, ComposerReplicationTrainer
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.lessons.online_sites import OnlineSite
from composer_replication.training.models.tiny import build_tokenizer
from composer_replication.training.stored.examples import PairTokens, TraceExample

SHAPES = {
    "small": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4},
    "smollm2": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49_152,
    },
}  # fmt: skip
TURN_TOKENS, HINT_TOKENS, ROWS_PER_SITE, PAIRS, ACTION_TOKENS = 64, 40, 5, 16, 48
VARIANTS = ("policy", "policy + channel 2 (live)", "policy + channel 2 (ema)", "policy + channel 3", "all three (ema)")


class Bench:
    def __init__(self, shape: str, rows: int, passes: int, tokens: int, folder: Path) -> None:
        self.rows, self.passes, self.tokens = rows, passes, tokens
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = build_tokenizer(vocabulary(ToolboxConfig()))
        torch.manual_seed(0)
        shape_of = {"vocab_size": len(self.tokenizer), **SHAPES[shape]}
        self.model = LlamaForCausalLM(
            LlamaConfig(**shape_of, max_position_embeddings=4 * tokens, tie_word_embeddings=True)
        ).to(self.device)
        self.vocabulary, self.folder = shape_of["vocab_size"], folder

    def trainer(self, alpha: float, beta: float, teacher: str) -> ComposerReplicationTrainer:
        args = GRPOConfig(
            output_dir=str(self.folder), per_device_train_batch_size=self.rows, num_generations=self.rows, beta=0.0,
            use_cpu=self.device == "cpu", bf16=self.device == "cuda", gradient_checkpointing=False, report_to=[],
            max_steps=1, save_strategy="no", disable_tqdm=True, gradient_accumulation_steps=self.passes,
        )  # fmt: skip
        trainer = ComposerReplicationTrainer(
            model=self.model,
            processing_class=self.tokenizer,
            args=args,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            train_dataset=Dataset.from_list([{"prompt": "x"}] * self.rows),
            channels=[SelfDistillation(SdpoSettings(weight=alpha, teacher=teacher))],
            beta_replay=beta,
            gradient_ratio_cap=None,
            hinter=lambda traces: [[] for _ in traces],
            batches=self._pairs(),
        )
        trainer.model_wrapped = trainer.accelerator.prepare_model(self.model)
        trainer.current_gradient_accumulation_steps = self.passes
        trainer.state.max_steps = 1
        if alpha:
            trainer.teacher.begin(self.model)
        return trainer

    def inputs(self, seed: int) -> dict[str, Any]:
        prompt = self.tokens // 4
        ids = torch.randint(self.vocabulary, (self.rows, self.tokens), device=self.device)
        ones = torch.ones_like(ids)
        sites: list[list[OnlineSite]] = [[] for _ in range(self.rows)]
        generator = torch.Generator().manual_seed(seed)
        for row in range(0, self.rows, ROWS_PER_SITE):
            turns = (self.tokens - prompt) // TURN_TOKENS
            start = int(torch.randint(turns, (), generator=generator)) * TURN_TOKENS
            context, end = ids[row, : prompt + start].tolist() + [1] * HINT_TOKENS, start + TURN_TOKENS
            sites[row] = [OnlineSite(start, end, "x", context, ids[row, prompt + start : prompt + end].tolist())]
        number = torch.tensor(float(self.passes * sum(map(len, sites))))
        return {
            "prompt_ids": ids[:, :prompt], "prompt_mask": ones[:, :prompt],
            "completion_ids": ids[:, prompt:], "completion_mask": ones[:, prompt:],
            "advantages": torch.randn(self.rows, device=self.device), "sdpo_sites": sites, "sdpo_number": number,
            "num_items_in_batch": torch.tensor(
                float(self.passes * self.rows * (self.tokens - prompt)), device=self.device
            ),
        }  # fmt: skip

    def _pairs(self) -> Any:
        context = self.tokens // 8

        def some(length: int) -> list[int]:
            return torch.randint(self.vocabulary, (length,)).tolist()

        pairs = [PairTokens(some(context), some(ACTION_TOKENS), some(ACTION_TOKENS)) for _ in range(PAIRS)]
        batch = ComposerDataCollator(0)([TraceExample(some(8), [1] * 8, 0.0, [], pairs)])
        while True:
            yield batch

    def step(self, trainer: ComposerReplicationTrainer, parts: list[dict[str, Any]]) -> Callable[[], float]:
        def one() -> float:
            self.model.train()
            self.model.zero_grad(set_to_none=True)
            self._wait()
            started = time.perf_counter()
            if trainer._online:
                trainer._online.expect([site for inputs in parts for found in inputs["sdpo_sites"] for site in found])
            for inputs in parts:
                loss = trainer._compute_loss(trainer.model_wrapped, inputs)
                trainer.accelerator.backward(loss)
            self._wait()
            return time.perf_counter() - started

        return one

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure(shape: str, rows: int, passes: int, tokens: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(shape, rows, passes, tokens, Path(folder))
        weights = [(0.0, 0.0, "live"), (0.1, 0.0, "live"), (0.1, 0.0, "ema"), (0.0, 0.05, "live"), (0.1, 0.05, "ema")]
        parts = [bench.inputs(seed) for seed in range(1, passes + 1)]
        steps = [bench.step(bench.trainer(*weight), parts) for weight in weights]
        seconds: list[list[float]] = [[] for _ in steps]
        peaks: list[float] = [0.0] * len(steps)
        for number in range(rounds + 1):
            for place, step in enumerate(steps):
                if bench.device == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                took = step()
                if number:  # the first round warms up
                    seconds[place].append(took)
                if bench.device == "cuda":
                    peaks[place] = max(peaks[place], torch.cuda.max_memory_allocated() / 2**30)
    medians = [statistics.median(times) for times in seconds]
    return {
        "device": torch.cuda.get_device_name() if bench.device == "cuda" else "CPU",
        "shape": shape,
        "rows": rows,
        "passes": passes,
        "tokens": tokens,
        "rounds": rounds,
        "sites": passes * -(-rows // ROWS_PER_SITE),
        "pairs": PAIRS,
        "variants": [
            {"name": name, "median_s": median, "extra": median / medians[0] - 1, "peak_gib": peak}
            for name, median, peak in zip(VARIANTS, medians, peaks, strict=True)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result = measure(given.shape, given.rows, given.passes, given.tokens, given.rounds)
    size = f"{result['passes']} passes over {result['rows']} trajectories of {result['tokens']} tokens"
    print(f"{result['device']}, {result['shape']}, {size}")
    for one in result["variants"]:
        print(f"{one['name']:28} {1000 * one['median_s']:8.1f} ms  {one['extra']:+7.1%}  {one['peak_gib']:6.2f} GiB")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
