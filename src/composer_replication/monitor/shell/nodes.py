"""Small questions about nodes of tree-sitter-bash."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node


def raw(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def flat(node: Node) -> Iterator[Node]:
    """Children, with chains of `&&` and `||` laid flat: the parser nests them as deep as they are long."""
    waiting = list(reversed(node.children))
    while waiting:
        child = waiting.pop()
        if child.type == "list":
            waiting += reversed(child.children)
        else:
            yield child


def descriptor(redirect: Node) -> str:
    """The number before a redirection, as the 3 of `3> file`; empty where none is written."""
    first = redirect.children[0] if redirect.children else None
    return raw(first) if first is not None and first.type == "file_descriptor" else ""
