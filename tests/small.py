"""A quickstart that is over in seconds: every stage, almost no training."""

SMALL_CONFIG = """
seed = 3
[warmup]
steps = 2
batch_size = 4
[ingestion]
embedded_session = true
rollouts = 8
[training]
steps = 2
prompts_per_step = 2
group_size = 2
traces_per_step = 4
max_turn_tokens = 16
[evaluation]
tasks = 4
"""
