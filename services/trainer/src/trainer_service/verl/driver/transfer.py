"""Groups in the TransferQueue, from where verl's replay buffer takes them."""

from collections.abc import Sequence
from typing import Any

import torch
import transfer_queue as tq
from verl.utils import tensordict_utils as tu

from trainer_service.job.samples.episodes import Trajectory
from trainer_service.job.samples.groups import Group, Sample
from trainer_service.job.samples.step_samples import Prompted, sample_key
from trainer_service.verl.algorithms import BEFORE_LENGTH

TRAIN = "train"
"""verl's partition of what is learned from."""


def put(groups: Sequence[tuple[Prompted, Group]], compared: bool) -> None:
    """Stores groups in the TransferQueue in the form of verl's agent loops (trainer/ppo/v1/agent_loop_tq.py:155).
    `compared`: by dynamic sampling (verl/algorithms.py).

    The prompt's own key then tells the replay buffer that its group has ended.
    """
    if taught := [(one, group) for one, group in groups if group.samples]:
        tq.kv_batch_put(
            keys=[
                sample_key(one.uid, session, index)
                for one, group in taught
                for session, sample in enumerate(group.samples)
                for index in range(len(sample.played.trajectories))
            ],
            fields=tu.list_of_dict_to_tensordict(
                [row for one, group in taught for row in rows_of(one.uid, group, compared)]
            ),
            tags=[tag for one, group in taught for tag in tags_of(one, group)],
            partition_id=TRAIN,
        )
    tq.kv_batch_put(
        keys=[one.uid for one, _ in groups],
        tags=[{"status": "finished" if len(group.samples) == one.draw.size else "failure"} for one, group in groups],
        partition_id=TRAIN,
    )


def tags_of(one: Prompted, group: Group) -> list[dict[str, Any]]:
    return [
        {
            "status": "success",
            "prompt_len": len(way.prompt),
            "response_len": len(way.tokens),
            "seq_len": len(way.prompt) + len(way.tokens),
            "global_steps": one.draw.step,
            # The weights' versions, in verl's terms and in ours.
            "min_global_steps": way.oldest,
            "max_global_steps": max(span.version.step for span in way.spans),
            "weights": [(span.version.step, span.version.policy_id) for span in way.spans],
        }
        for sample in group.samples
        for way in sample.played.trajectories
    ]


def rows_of(uid: str, group: Group, compared: bool) -> list[dict[str, Any]]:
    """What is no tensor takes the queue and each rank as long as several tensors: only what is asked for is there."""
    rows = []
    for sample in group.samples:
        for way in sample.played.trajectories:
            rows.append({"uid": uid, **_row(way, _rewards(sample, way))})
            if compared:
                rows[-1]["extra_fields"] = {"reward_extra_info": {BEFORE_LENGTH: sample.earned.before_length}}
    return rows


def _rewards(sample: Sample, way: Trajectory) -> Sequence[float]:
    """The reward of each answer. Several trajectories have the whole reward at their ends: verl compares the last of
    each sample (trainer/ppo/v1/utils.py:161)."""
    if len(sample.played.trajectories) == 1:
        return sample.rewards
    return [*[0.0] * (len(way.ends) - 1), sample.earned.reward]


def _row(way: Trajectory, rewards: Sequence[float]) -> dict[str, Any]:
    prompt, tokens = (torch.tensor(ids, dtype=torch.int64) for ids in (way.prompt, way.tokens))
    ids, mask = torch.cat([prompt, tokens]), torch.tensor(way.mask, dtype=torch.int64)
    scores = torch.zeros(len(tokens), dtype=torch.float32)
    scores[list(way.ends)] = torch.tensor(rewards, dtype=torch.float32)
    return {
        "prompts": prompt,
        "responses": tokens,
        "response_mask": mask,
        "loss_mask": mask,
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "rollout_log_probs": torch.tensor(way.log_probs, dtype=torch.float32),
        "rm_scores": scores,
        "num_turns": 2 * len(way.ends),
    }
