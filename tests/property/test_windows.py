"""Windows of histories: never beyond the room, never without the system prompt, the error or the call that failed."""

from hypothesis import given
from hypothesis import strategies as st

from composer_replication.windows import WHOLE, TurnHistory, elided, fit_messages, kept_turns, levels

NAMES = st.sampled_from(["read", "write", "run"])
TEXTS = st.integers(0, 4000).map(lambda length: "".join(chr(97 + place % 26) for place in range(length)))


def size(message):
    calls = sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", []))
    return 2 + len(message["content"]) // 4 + calls // 4


@st.composite
def histories(draw):
    messages = [{"role": "system", "content": draw(TEXTS)}] if draw(st.booleans()) else []
    messages += [{"role": "user", "content": draw(TEXTS)} for _ in range(draw(st.integers(0, 3)))]
    for number in range(draw(st.integers(0, 6))):
        calls = [
            {"id": f"{number}.{i}", "type": "function", "function": {"name": draw(NAMES), "arguments": "{}"}}
            for i in range(draw(st.integers(0, 2)))
        ]
        messages.append({"role": "assistant", "content": draw(TEXTS), "tool_calls": calls})
        for call in calls:
            result = {"role": "tool", "content": draw(TEXTS), "tool_call_id": call["id"]}
            messages.append({**result, "is_error": True} if draw(st.booleans()) else result)
        if draw(st.booleans()):
            messages.append({"role": "user", "content": draw(TEXTS)})
    own_call = {"id": "own", "type": "function", "function": {"name": draw(NAMES), "arguments": "{}"}}
    return messages, {"role": "assistant", "content": "", "tool_calls": [own_call]}


@given(histories(), st.integers(0, 6000), st.integers(0, 500))
def test_a_window_fits_or_there_is_none(drawn, max_tokens, reserved):
    messages, own = drawn
    history = TurnHistory(messages, own)
    found = fit_messages(history, max_tokens, reserved, size)
    whole = sum(map(size, messages))
    if found is None:
        least = min(
            sum(map(size, parts[0].messages))
            + sum(size(m) for turn in history.needed for m in parts[1 + turn].messages)
            for parts in map(history.parts, levels(max_tokens))
        )
        assert whole > max_tokens - reserved
        assert least > max_tokens - reserved
        return
    left = sum(map(size, found.messages))
    assert left <= max_tokens - reserved
    assert left == whole - found.cut.tokens
    assert (found.messages == messages) == (found.cut.turns == found.cut.elided_messages == 0)
    if whole <= max_tokens - reserved:
        assert found.messages == messages


@given(histories(), st.integers(0, 6000))
def test_what_must_stay_stays_whole(drawn, max_tokens):
    messages, own = drawn
    history = TurnHistory(messages, own)
    found = fit_messages(history, max_tokens, 0, size)
    if found is None:
        return
    for message in messages:
        if message["role"] == "system":
            assert message in found.messages
    opening = found.messages[: len(history.opening)]
    assert [message["role"] for message in opening] == [message["role"] for message in history.opening]
    own_tool = own["tool_calls"][0]["function"]["name"]
    for place in range(len(history.turns) - 1, -1, -1):
        turn = history.turns[place]
        tools = {call["id"]: call["function"]["name"] for call in turn[0]["tool_calls"]}
        errors = [message for message in turn if message.get("is_error")]
        is_last = place == len(history.turns) - 1
        if errors and (is_last or own_tool in {tools[message["tool_call_id"]] for message in errors}):
            assert turn[0] in found.messages
            assert all(message in found.messages for message in errors)
            break
    # Whatever stays of an assistant or an error stays as it was.
    for message in found.messages:
        if message["role"] == "assistant" or message.get("is_error"):
            assert message in messages


@given(histories(), st.integers(0, 6000))
def test_a_windowed_history_is_still_a_conversation(drawn, max_tokens):
    messages, own = drawn
    found = fit_messages(TurnHistory(messages, own), max_tokens, 0, size)
    if found is None:
        return
    called = {call["id"] for message in found.messages for call in message.get("tool_calls", [])}
    answered = {message["tool_call_id"] for message in found.messages if message["role"] == "tool"}
    assert called == answered
    order = [
        message.get("tool_calls", [{}])[0].get("id", "") for message in found.messages if message.get("tool_calls")
    ]
    assert order == sorted(order)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(0, 300), st.data())
def test_the_oldest_turns_go_first_and_as_few_as_possible(sizes, room, data):
    needed = data.draw(st.sets(st.sampled_from(range(len(sizes))))) if sizes else set()
    kept = kept_turns(sizes, room, needed)
    if kept is None:
        assert sum(sizes[place] for place in needed) > room
        return
    assert needed <= set(kept)
    assert sum(sizes[place] for place in kept) <= room
    dropped = [place for place in range(len(sizes)) if place not in kept]
    if dropped:
        assert set(range(dropped[-1] + 1, len(sizes))) <= set(kept)
        assert sum(sizes[place] for place in [*kept, dropped[-1]]) > room


@given(TEXTS, st.integers(0, 3000))
def test_an_elided_text_says_how_much_is_gone(text, most):
    message = {"role": "tool", "content": text, "tool_call_id": "c"}
    shown = elided(message, most)
    assert elided(message, 10**6) is message
    if shown is message:
        return
    content = shown["content"]
    assert len(content) < len(text)
    assert f"{len(text) - most:,} characters cut" in content
    head, tail = content.split("\n[... ")[0], content.split(" ...]\n")[-1]
    assert len(head) + len(tail) == most
    assert text.startswith(head)
    assert text.endswith(tail)


@given(st.integers(0, 10**6))
def test_levels_begin_with_nothing_and_cut_ever_more(max_tokens):
    first, *others = levels(max_tokens)
    assert first == WHOLE
    assert [level.later for level in others] == sorted((level.later for level in others), reverse=True)
    assert all(level.opening is None or level.opening >= min(1000, max_tokens // 2) for level in others)
