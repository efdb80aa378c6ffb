"""Does a change of the code leave training as it was, to the last bit? Short toolbox runs under two source trees.

    python benchmarks/same_bits.py OTHER_CHECKOUT [--scenes plain offline ...]

Runs `recompose quickstart` on each scene with this checkout and with the other one (a `git worktree` of an earlier
commit, say), one thread, and compares the sha256 of the trained weights. Scenes use the keys that files had before
`[[channels]]`, so that earlier checkouts can read them.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]
COMMON = """
seed = 3
[warmup]
steps = 30
[ingestion]
embedded_session = true
rollouts = 64
[replay]
max_states = 48
[evaluation]
tasks = 2
splits = ["heldout"]
[training]
steps = 6
traces_per_step = 4
"""
ROLLOUTS = "prompts_per_step = 4\ngroup_size = 4\n"
HALF = "[hardware]\nrollouts_per_device = 8\n"
EVERYTHING = """
sdpo_from = "rollouts"
alpha_sdpo = 0.7
beta_replay = 0.3
sdpo_jsd_beta = 0.3
sdpo_top_k = 20
sdpo_token_clip = 0.2
sdpo_ema_rate = 0.2
sdpo_sites_per_rollout = 1
sdpo_require_disfavour = false
sdpo_require_acceptance = true
sdpo_kinds_off = ["json_decode"]
sdpo_sham = true
dpo_beta = 0.4
dpo_nll_weight = 0.5
dpo_dpop_weight = 0.25
dpo_length_normalised = "auto"
channel_warmup_share = 0.4
channel_decay_share = 0.3
gradient_ratio_cap = 0.8
"""
SCENES = {
    "plain": "alpha_sdpo = 0.0\nbeta_replay = 0.0\n",
    "offline": "rollouts = false\n",
    "stored": 'sdpo_from = "stored"\n',
    "stored, accumulation 2": f'sdpo_from = "stored"\n{HALF}',
    "rollouts": 'sdpo_from = "rollouts"\n',
    "rollouts, accumulation 2": f'sdpo_from = "rollouts"\n{HALF}',
    "every option": EVERYTHING,
}


def weights(checkout: Path, scene: str, folder: Path) -> str:
    config, run = folder / "scene.toml", folder / "run"
    # Settings that a training without rollouts has no use for are refused.
    config.write_text(COMMON + ("" if scene == "offline" else ROLLOUTS) + SCENES[scene])
    command = [sys.executable, "-m", "composer_replication", "quickstart", "--config", str(config), "--run", str(run)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 - this interpreter, our own arguments
        [*command, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr.strip().splitlines()[-1]}")
    files = sorted((run / "training" / "model").glob("*.safetensors"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    given = parser.parse_args()
    different = 0
    for scene in given.scenes:
        found = []
        for checkout in (given.other.resolve(), HERE):
            with tempfile.TemporaryDirectory() as folder:
                found.append(weights(checkout, scene, Path(folder)))
        different += found[0] != found[1]
        print(f"{scene:<26} {found[0]}  {found[1]}  {'same' if found[0] == found[1] else 'DIFFERENT'}", flush=True)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
