"""Makes tests/samples/verifiers: episodes made of verifiers' own classes, by its own writer and by that of prime-rl.

    python tests/verifiers_tasksets/write_samples.py PRIME_RL_SOURCES FOLDER

Under verifiers' Python. Nobody played them. prime-rl's `monitors/file.py` is run as it is; the modules that it imports
are not there, and its writer of episodes uses none of them.
"""

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, TrainRunInfo, TrainWorkInfo, WireEpisode
from verifiers.v1.graph import MessageNode
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, ModelCall, Reward, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, Message, SystemMessage, Tool, ToolCall, ToolMessage, UserMessage
from verifiers.v1.utils.trace_store import write_episode

NUMBERS = {name: {"type": "integer"} for name in ("a", "b")}
PARAMETERS = {"type": "object", "properties": NUMBERS, "required": ["a", "b"]}
TOOLS = [Tool(name="add", description="Add two numbers.", parameters=PARAMETERS)]
OPENING = [SystemMessage(content="Use the tools."), UserMessage(content="What is 12 + 456? Say the number alone.")]


def called(name: str, arguments: str, answer: str, call_id: str) -> list[Message]:
    call = ToolCall(id=call_id, name=name, arguments=arguments)
    return [AssistantMessage(tool_calls=[call]), ToolMessage(tool_call_id=call_id, content=answer)]


WRONG_TOOL = called("plus", '{"a": 12, "b": 456}', "Error: no such tool: plus", "call_0")
LEFT_OUT = called("add", '{"a": 12}', "Error: b: field required", "call_1")
RIGHT = [*called("add", '{"a": 12, "b": 456}', "468", "call_2"), AssistantMessage(content="468")]


def trace(number: int, *branches: list[Message]) -> Any:
    """Branches share the opening."""
    nodes: list[MessageNode] = []
    for branch in branches:
        shared = len(OPENING) if nodes else 0
        for place, message in enumerate([*OPENING, *branch][shared:], shared):
            parent = len(nodes) - 1 if place != shared else shared - 1
            made = isinstance(message, AssistantMessage)
            nodes.append(MessageNode(parent=parent if parent >= 0 else None, message=message, sampled=made))
    nodes[0].tools = TOOLS
    calls = [ModelCall(node=place, model="policy") for place, node in enumerate(nodes) if node.sampled]
    solved = branches[-1] is RIGHT or branches[-1][-1] is RIGHT[-1]
    data = WireTaskData(id="12+456", prompt=OPENING[1].content)
    return Trace[WireTaskData, Any, WireAgentConfig](
        id=f"sample{number}",
        task=TraceTask(type="Task", data=data, key="12+456"),
        agent=AgentInfo(config=WireAgentConfig(model="policy")),
        tools=TOOLS,
        nodes=nodes,
        calls=calls,
        rewards={"right": Reward(score=float(solved))},
        is_completed=True,
        ok=True,
        stop_condition="agent_completed",
    )


def episode(number: int, *branches: list[Message]) -> WireEpisode:
    made = trace(number, *branches)
    run = TrainRunInfo(id="run", work=TrainWorkInfo(step=3))
    return WireEpisode(id=f"episode{number}", env=EnvInfo(id="sums"), task=made.task, run=run, ok=True, traces=[made])


def file_monitor(sources: Path) -> Any:
    for name, members in (
        ("configs.monitors", "FileMonitorConfig"),
        ("monitors.base", "Kind Monitor Subset"),
        ("utils.utils", "sanitize"),
    ):
        module = sys.modules[f"prime_rl.{name}"] = ModuleType(name)
        vars(module).update(dict.fromkeys(members.split(), object))
    scope: dict[str, Any] = {"__name__": "file"}
    exec((sources / "src/prime_rl/monitors/file.py").read_text(), scope)
    return scope["FileMonitor"].__new__(scope["FileMonitor"])


def main(sources: Path, folder: Path) -> None:
    monitor = file_monitor(sources)
    monitor.output_dir = folder
    played = [episode(0, [*WRONG_TOOL, *RIGHT]), episode(1, WRONG_TOOL, [*LEFT_OUT, AssistantMessage(content="469")])]
    asyncio.run(monitor.log_episodes(played, 3, "train", "all"))
    write_episode(folder, episode(2, [*LEFT_OUT, *RIGHT]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
