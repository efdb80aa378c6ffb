"""Tables of `datasets` are read like files of JSON lines, and our own exports come back."""

from __future__ import annotations

import json

import pytest

from composer_replication.ingestion import Ingestion, find_inputs
from composer_replication.records import Trace
from tests.ingested import stored_lines

from .test_export import DEEP, PAIRS, export

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"list folder {n}"},
            {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
            {"role": "tool", "content": "a.py", "tool_call_id": "c1"},
            {"role": "assistant", "content": f"There is a.py in {n}."},
        ],
        "tools": json.dumps(TOOLS),
        "instance_id": f"task-{n}",
        "resolved": n % 2 == 0,
    }
    for n in range(3)
]


def traces(path) -> list[Trace]:
    reading = Ingestion(find_inputs([path]), True, 1)
    lines = stored_lines(reading)
    assert reading.quarantined == []
    return [Trace.model_validate_json(line) for line in lines]


@pytest.fixture(scope="module")
def dataset():
    from datasets import Dataset

    return Dataset.from_list(ROWS)


@pytest.mark.parametrize("kind", ["saved", "parquet", "jsonl"])
def test_a_dataset_gives_the_sessions_of_its_rows_in_every_form(dataset, kind, tmp_path):
    """Arrow fills messages up with nulls: `tool_calls` of the user, `tool_call_id` of the assistant."""
    if kind == "saved":
        dataset.save_to_disk(str(tmp_path / "data"))
    elif kind == "parquet":
        (tmp_path / "data").mkdir()
        dataset.to_parquet(str(tmp_path / "data" / "train.parquet"))
    else:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    found = traces(tmp_path / "data")
    assert [trace.task_id for trace in found] == ["task-0", "task-1", "task-2"]
    assert [trace.outcome for trace in found] == [1.0, 0.0, 1.0]
    first = found[0]
    assert [message["role"] for message in first.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert first.messages[2]["tool_calls"][0]["function"]["name"] == "bash"
    assert json.loads(first.messages[2]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    assert [tool["function"]["name"] for tool in first.tools] == ["bash"]


def test_our_own_export_comes_back(tmp_path):
    export(PAIRS, "sft", tmp_path / "sft")
    found = traces(tmp_path / "sft")
    assert len(found) == 2
    # A call without a result gets a placeholder behind it.
    calls = [trace.messages[trace.turns[-1].start]["tool_calls"][0]["function"] for trace in found]
    assert [call["name"] for call in calls] == ["read_file", "set_key"]
    assert [json.loads(call["arguments"]) for call in calls] == [{"path": "a.py"}, json.loads(DEEP)]


def test_a_table_is_redacted_and_a_damaged_one_is_set_aside(dataset, tmp_path):
    from datasets import Dataset

    secret = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
    rows = [{**ROWS[0], "messages": [{"role": "user", "content": secret}, *ROWS[0]["messages"][1:]]}]
    Dataset.from_list(rows).to_parquet(str(tmp_path / "good.parquet"))
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    inputs = find_inputs([tmp_path / "good.parquet", tmp_path / "cut.parquet"])
    assert [item.file for item in inputs.unreadable] == ["cut.parquet"]
    [line] = stored_lines(Ingestion(inputs, True, 1))
    assert secret.encode() not in line and b"<SECRET:github-pat:1>" in line
