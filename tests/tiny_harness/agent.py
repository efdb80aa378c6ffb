"""A tiny agent for tests, in one file without packages: asks its provider for commands and runs them.

`agent.py WAY [DIALECT]`: WAY is how it behaves, DIALECT is openai or anthropic, `+stream` behind it for streaming.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

SYSTEM = "You work on a repository with one tool."
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
OPENAI_TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": PARAMETERS}}]
ANTHROPIC_TOOLS = [{"name": "bash", "description": "", "input_schema": PARAMETERS}]


def post(url, body, headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), {**headers, "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def events(text):
    lines = (line[6:] for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


class OpenAI:
    def __init__(self, streams):
        self.streams = streams
        self.messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": os.environ["TASK"]}]

    def ask(self):
        body = {"model": os.environ["MODEL"], "messages": self.messages, "tools": OPENAI_TOOLS, "stream": self.streams}
        headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
        text = post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
        if not self.streams:
            message = json.loads(text)["choices"][0]["message"]
        else:
            deltas = [choice["delta"] for event in events(text) for choice in event["choices"]]
            message = {"role": "assistant", "content": "".join(delta.get("content") or "" for delta in deltas)}
            calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
            if calls:
                message["tool_calls"] = [{key: call[key] for key in ("id", "type", "function")} for call in calls]
        return message

    def take(self, message):
        self.messages.append(message)
        for call in message.get("tool_calls") or ():
            command = json.loads(call["function"]["arguments"])["command"]
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": told(command)[0]})
        return bool(message.get("tool_calls"))


class Anthropic:
    def __init__(self, streams):
        self.streams = streams
        self.messages = [{"role": "user", "content": os.environ["TASK"]}]

    def ask(self):
        body = {
            "model": os.environ["MODEL"],
            "system": SYSTEM,
            "messages": self.messages,
            "tools": ANTHROPIC_TOOLS,
            "max_tokens": 2000,
            "stream": self.streams,
        }
        headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
        text = post(f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages", body, headers)
        if not self.streams:
            return json.loads(text)["content"]
        blocks = {}
        for event in events(text):
            if event["type"] == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "written": ""}
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                blocks[event["index"]]["written"] += delta.get("text", "") + delta.get("partial_json", "")
        content = []
        for block in blocks.values():
            written = block.pop("written")
            content.append(
                {**block, "text": written} if block["type"] == "text" else {**block, "input": json.loads(written)}
            )
        return content

    def take(self, content):
        self.messages.append({"role": "assistant", "content": content})
        results = []
        for block in content:
            if block["type"] == "tool_use":
                text, failed = told(block["input"]["command"])
                results.append({"type": "tool_result", "tool_use_id": block["id"], "content": text, "is_error": failed})
        self.messages.append({"role": "user", "content": results or "Go on."})
        return bool(results)


def told(command):
    ran = subprocess.run(command, shell=True, capture_output=True, text=True)
    shown = json.dumps({"returncode": ran.returncode, "output": ran.stdout + ran.stderr})
    return shown, ran.returncode != 0


def work(agent):
    while agent.take(agent.ask()):
        pass


def compact(agent):
    agent.take(agent.ask())
    agent.take(agent.ask())
    agent.messages[1:] = [{"role": "user", "content": "You looked around. Go on."}]
    work(agent)


def retry(agent):
    agent.ask()
    work(agent)


def forget(agent):
    """As agents do that leave an unreadable answer out of the history."""
    message = agent.ask()
    if not message.get("tool_calls"):
        agent.messages.append({"role": "user", "content": "No tool calls found in the response."})
        message = agent.ask()
    agent.take(message)


def side_by_side(agent):
    agent.take(agent.ask())
    shared = list(agent.messages)

    def subtask(number):
        own = OpenAI(streams=False)
        own.messages = [*shared, {"role": "user", "content": f"Part {number}."}]
        own.ask()

    threads = [threading.Thread(target=subtask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def loop(agent):
    while True:
        agent.ask()


def fail(agent):
    agent.ask()
    sys.exit("no more")


def wordy(agent):
    agent.messages[0]["content"] = "Be good. " * 2000
    work(agent)


def unreadable(agent):
    agent.messages = [{"role": "user", "content": [5]}]
    agent.ask()


def escape(agent):
    """What can be reached besides the proxy."""
    reached = []
    for url in (
        os.environ["OUTSIDE"],
        "http://1.1.1.1",
        "http://example.com",
        f"{os.environ['OPENAI_BASE_URL']}/../sessions",
    ):
        try:
            urllib.request.urlopen(url, timeout=3)
            reached.append(url)
        except (urllib.error.URLError, OSError):
            pass
    agent.messages.append({"role": "user", "content": f"reached {reached}"})
    agent.ask()


WAYS = {
    "work": work, "compact": compact, "retry": retry, "forget": forget, "side_by_side": side_by_side, "loop": loop,
    "fail": fail, "escape": escape, "unreadable": unreadable, "wordy": wordy,
    "silent": lambda agent: print("I never ask."),
}  # fmt: skip
DIALECTS = {"openai": OpenAI, "anthropic": Anthropic}

if __name__ == "__main__":
    dialect, _, streams = (sys.argv[2] if len(sys.argv) > 2 else "openai").partition("+")
    WAYS[sys.argv[1]](DIALECTS[dialect](bool(streams)))
