"""verl's synchronous trainer with channels 2 and 3: `trainer.v1.trainer_mode=composer_sync`.

Before the actor's update the training engine itself scores the hinted turns and both sides of the pairs. What follows
are columns beside the batch: rollouts keep their rows; stored sites and pairs are added as rows without an advantage.

Two traps of verl's are closed here. A group that failed is padded over in silence: a step with fewer rollouts than it
asked for ends the run. A dead rollout worker is waited for without end: who waits asks whether all still live.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.padding import response_from_nested

from composer_replication.config import Config
from composer_replication.objective import SdpoSettings, TrdpoSettings

from ..lesson_rows import Columns, ScoredRow, pair_columns, site_columns, told_of_rollouts
from ..overrides import CONFIG_FILE, STEPS_FILE
from ..stored_steps import StoredStep, read_steps
from .loss import COLUMNS, composer_loss

FIELDS = (
    "prompts",
    "responses",
    "input_ids",
    "position_ids",
    "response_mask",
    "loss_mask",
    "advantages",
    "old_log_probs",
)
OPTIONAL_FIELDS = ("ref_log_prob", "rollout_is_weights")
ALIVE_WITHIN_S = 60


class OnlineSiteAt(NamedTuple):
    row: int
    start: int
    end: int
    hinted: ScoredRow


@register_trainer("composer_sync")
class ComposerTrainer(PPOTrainerSync):
    def _build_replay_buffer(self) -> Any:
        # By its name verl would take an asynchronous buffer, which drops failed groups and plays others instead.
        self.trainer_mode = "sync"
        folder = Path(self.config.composer.folder)
        self._settings = Config.model_validate_json((folder / CONFIG_FILE).read_text())
        self._steps = read_steps(folder / STEPS_FILE)
        buffer = super()._build_replay_buffer()
        look = buffer._sync_metadata_from_transfer_queue

        def look_while_all_live() -> None:
            self._refuse_dead_workers()
            look()

        buffer._sync_metadata_from_transfer_queue = look_while_all_live
        return buffer

    def on_init_end(self) -> None:
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(composer_loss, config=actor))
        super().on_init_end()

    def on_step_end(self) -> None:
        try:
            super().on_step_end()
        except ray.exceptions.RayError:
            self._refuse_dead_workers()
            raise

    def _refuse_dead_workers(self) -> None:
        manager = getattr(self, "agent_loop_manager", None)
        if manager is None:
            return
        servers = [server for replica in self.llm_server_manager.get_replicas() for server in replica.servers]
        asked = [worker.__ray_ready__.remote() for worker in [*manager.agent_loop_workers, *servers]]
        try:
            ray.get(asked, timeout=ALIVE_WITHIN_S)
        except ray.exceptions.GetTimeoutError:
            return  # busy, which is no death
        except ray.exceptions.RayActorError as error:
            raise RuntimeError(f"a rollout worker has died: {str(error).splitlines()[0]}") from error

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict, *others: Any, **named: Any) -> KVBatchMeta:
        wanted = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
        if len(batch.keys) < wanted:
            raise RuntimeError(f"{wanted - len(batch.keys)} of {wanted} rollouts of step {self.global_steps} failed")
        return super()._balance_batch(batch, metrics, *others, **named)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        step = self._steps[self.global_steps - 1]
        online = self._online_sites(batch, metrics) if step.sdpo_weight else []
        if not (online or step.sites or step.pairs):
            return super()._update_actor(batch, metrics)
        columns, rows = self._columns(batch, step, online, metrics)
        taught = self._with_rows(batch, columns, rows)
        actor = self.config.actor_rollout_ref.actor
        taught.extra_info |= {
            "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
            "compute_loss": True,
            "global_batch_size": actor.ppo_mini_batch_size * self.config.actor_rollout_ref.rollout.n,
            "mini_batch_size": len(taught.keys),
            "epochs": actor.ppo_epochs,
            "seed": actor.data_loader_seed,
            "dataloader_kwargs": {"shuffle": False},
            "temperature": self.config.actor_rollout_ref.rollout.temperature,
        }
        self._report(self.actor_rollout_wg.update_actor(taught), metrics)
        if added := taught.keys[len(batch.keys) :]:
            tq.kv_clear(keys=added, partition_id=batch.partition_id)
        return batch

    @staticmethod
    def _report(output: Any, metrics: dict) -> None:
        from verl.utils.metric import reduce_metrics
        from verl.utils.py_functional import rename_dict

        found = rename_dict(output["metrics"], "actor/")
        found["perf/mfu/actor"] = found.pop("actor/mfu")
        metrics.update(reduce_metrics(found))

    # What there is to learn

    def _online_sites(self, batch: KVBatchMeta, metrics: dict) -> list[OnlineSiteAt]:
        """Rows that only fill the batch are copies of a real one, its sites included."""
        found = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields", "responses"]
        )
        extra = [getattr(fields, "data", fields) for fields in found["extra_fields"]]
        responses = [ids.tolist() for ids in found["responses"].unbind()]
        real = [row for row, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
        metrics |= told_of_rollouts(extra[row]["composer_left_out"] for row in real)
        return [
            OnlineSiteAt(row, start, end, ScoredRow(list(context), responses[row][start:end]))
            for row in real
            for start, end, context in extra[row]["composer_sites"]
        ]

    def _columns(
        self, batch: KVBatchMeta, step: StoredStep, online: list[OnlineSiteAt], metrics: dict
    ) -> tuple[list[Columns], list[ScoredRow]]:
        """Of the rollouts' rows, then of the rows to be added."""
        added = [ScoredRow(site.context, site.turn) for site in step.sites]
        sides = [ScoredRow(pair.prompt, side) for pair in step.pairs for side in (pair.chosen, pair.rejected)]
        hinted = [site.hinted for site in online] + [ScoredRow(site.teacher_context, site.turn) for site in step.sites]
        scores = self._logprobs([*hinted, *added, *sides])
        teacher, own, of_sides = (
            scores[: len(hinted)], scores[len(hinted) : len(hinted) + len(added)], scores[len(hinted) + len(added) :]
        )  # fmt: skip
        old = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["old_log_probs"])
        rollouts = list(old["old_log_probs"].unbind())
        columns = [Columns.empty(len(row)) for row in rollouts] + [Columns.empty(len(row.turn)) for row in added]
        at = [(site.row, site.start, site.end) for site in online]
        at += [(len(rollouts) + place, 0, len(row.turn)) for place, row in enumerate(added)]
        policy = [rollouts[row][start:end] for row, start, end in at[: len(online)]] + own
        metrics |= site_columns(columns, at, policy, teacher, step.sdpo_weight, self._settings.channel(SdpoSettings))
        told, of_pairs = pair_columns(of_sides, step.pairs, step.trdpo_weight, self._settings.channel(TrdpoSettings))
        metrics |= told
        return columns + of_pairs, added + sides

    def _logprobs(self, rows: list[ScoredRow]) -> list[Tensor]:
        """Of each row's turn, from the training engine."""
        ranks = self.actor_rollout_wg.world_size
        filled = rows + rows[-1:] * (-len(rows) % ranks)
        data = TensorDict(_fields(filled), batch_size=[len(filled)])
        temperature = self.config.actor_rollout_ref.rollout.temperature
        tu.assign_non_tensor(data, temperature=temperature, calculate_entropy=False, compute_loss=False)
        found = self.actor_rollout_wg.compute_log_prob(data)
        return list(response_from_nested(found["log_probs"], data["response_mask"]).unbind())[: len(rows)]

    def _with_rows(self, batch: KVBatchMeta, columns: list[Columns], rows: list[ScoredRow]) -> KVBatchMeta:
        ranks = self.actor_rollout_wg.world_size
        spare = -(len(batch.keys) + len(rows)) % ranks
        rows, columns = (
            rows + rows[-1:] * spare,
            columns + [Columns.empty(len(rows[-1].turn))] * spare if spare else columns,
        )
        keys = [f"composer{self.global_steps}_{place}_0" for place in range(len(rows))]
        if rows:
            silent = [torch.zeros(len(row.turn)) for row in rows]
            fields = _fields(rows) | {name: _nested(silent) for name in ("advantages", "old_log_probs")}
            found = tq.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id)
            present = [name for name in OPTIONAL_FIELDS if name in found]
            fields |= {name: _nested(silent) for name in present}
            tq.kv_batch_put(
                keys=keys,
                partition_id=batch.partition_id,
                fields=TensorDict(fields, batch_size=[len(rows)]),
                tags=[{"is_padding": True, "seq_len": len(row.context) + len(row.turn)} for row in rows],
            )
        else:
            present = []
        by_name = {name: _nested([column[place] for column in columns]) for place, name in enumerate(COLUMNS)}
        everyone = [*batch.keys, *keys]
        tq.kv_batch_put(
            keys=everyone, partition_id=batch.partition_id, fields=TensorDict(by_name, batch_size=[len(everyone)])
        )
        return KVBatchMeta(
            partition_id=batch.partition_id,
            keys=everyone,
            tags=[{} for _ in everyone],
            fields=[*FIELDS, *present, *COLUMNS],
            extra_info=dict(batch.extra_info),
        )


def _fields(rows: list[ScoredRow]) -> dict[str, Tensor]:
    """As verl's agent loops write them, but that no token counts for the policy gradient."""
    ids = [torch.tensor(row.context + row.turn) for row in rows]
    unmasked = [torch.zeros(len(row.turn), dtype=torch.int64) for row in rows]
    return {
        "prompts": _nested([torch.tensor(row.context) for row in rows]),
        "responses": _nested([torch.tensor(row.turn) for row in rows]),
        "input_ids": _nested(ids),
        "position_ids": _nested([torch.arange(len(each)) for each in ids]),
        "response_mask": _nested(unmasked),
        "loss_mask": _nested(unmasked),
    }


def _nested(tensors: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)
