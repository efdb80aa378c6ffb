"""What a chat template writes to open the assistant's turn."""

from itertools import takewhile

ASKED = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


def header_ids(tokens):
    opened = tokens.prompt(ASKED)
    closed = tokens.tokenizer(tokens.template.text(ASKED), add_special_tokens=False)["input_ids"]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(opened, closed, strict=False))
    return opened[len(list(shared)) :]
