"""Makes tests/samples/verifiers: episodes that verifiers plays, by its own writer and by that of prime-rl.

    PYTHONPATH=tests/verifiers_tasksets python tests/verifiers_tasksets/write_samples.py PRIME_RL_SOURCES FOLDER

Under verifiers' Python. prime-rl's `monitors/file.py` is run as it is; the modules that it imports are not there, and
its writer of episodes uses none of them.
"""

import asyncio
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
from aiohttp import web
from verifiers.v1.utils.trace_store import write_episode

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src/composer_replication/environments/verifiers/host"))
os.environ["RECOMPOSE_PLAYER_TOKEN"] = "sample"

from recompose_player import Player  # noqa: E402

SETTINGS = {"taskset": "tool_sums", "taskset_settings": {}, "harness": None, "max_turns": 8, "limit": None}


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"content": "", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}


ANSWERS = (
    [call(0, "divide", '{"a": 12, "b": 0}'), call(1, "add", '{"a": 12, "b": 456}'), {"content": "468"}],
    [call(0, "plus", '{"a": 12, "b": 456}'), {"content": "It is 469."}],
)


def file_monitor(sources: Path) -> Any:
    for name, member in (
        ("configs.monitors", "FileMonitorConfig"),
        ("monitors.base", "Kind Monitor Subset"),
        ("utils.utils", "sanitize"),
    ):
        module = sys.modules[f"prime_rl.{name}"] = ModuleType(name)
        vars(module).update(dict.fromkeys(member.split(), object))
    scope: dict[str, Any] = {"__name__": "file"}
    exec((sources / "src/prime_rl/monitors/file.py").read_text(), scope)
    return scope["FileMonitor"].__new__(scope["FileMonitor"])


async def play(player: Player) -> list[Any]:
    episodes: list[Any] = []
    run = player.environment.run_slot

    async def kept(*given: Any, **named: Any) -> Any:
        episodes.append(await run(*given, **named))
        return episodes[-1]

    player.environment.run_slot = kept
    runner = web.AppRunner(player.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    async with player.environment.serving():
        await site.start()
        port = runner.addresses[0][1]
        player.listens_at(port)
        headers = {"Authorization": "Bearer sample"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=600) as client:
            for turns in ANSWERS:
                begun = (await client.post("/rollouts", json={"task": next(iter(player.tasks))})).json()
                for turn in turns:
                    assert not begun["finished"], begun
                    told = await client.post(f"/rollouts/{begun['rollout']}/turn", json=turn)
                    begun |= told.json()
        await runner.cleanup()
    return episodes


async def main(sources: Path, folder: Path) -> None:
    episodes = await play(Player(SETTINGS))
    monitor = file_monitor(sources)
    monitor.output_dir = folder
    await monitor.log_episodes(episodes, 3, "train", "all")
    for episode in episodes:
        write_episode(folder, episode)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
