"""A value that leaves the untrusted process is the same value outside, or equals nothing."""

import collections
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import re
import uuid
from dataclasses import dataclass, field

import pytest

from composer_replication.environments.code.grading.inside.recompose_grading.plain_form import Encoder
from composer_replication.environments.code.grading.plain_data import OPAQUE, Thing, decode

SAME = [
    None, True, 0, -(2**70), 1.5, float("inf"), 2 - 3j, "", "ä\ud800", b"\0x",
    [], [1, [2.0, "3"]], (), (1, (None,)), {}, {"a": [1], 2: {}},
    {1, 2}, frozenset({"x"}), collections.deque([1, 2]), collections.OrderedDict(b=1, a=2), range(2, 9, 3),
    decimal.Decimal("1.10"), fractions.Fraction(2, 3), datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
    datetime.date(2026, 1, 2), datetime.time(3, 4), datetime.timedelta(days=-1, microseconds=5), uuid.UUID(int=7),
    pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("a\\b"),
]  # fmt: skip


def sent(value, side=""):
    return decode(json.loads(json.dumps(Encoder().form(value))), side)


@pytest.mark.parametrize("value", SAME, ids=repr)
def test_a_builtin_value_comes_out_as_it_was(value):
    assert sent(value) == value
    assert type(sent(value)) in (type(value), frozenset)


def test_a_set_is_written_in_one_order():
    forward, backward = {f"a{number}" for number in range(9)}, {f"a{number}" for number in reversed(range(9))}
    assert Encoder().form(forward) == Encoder().form(backward) == ["set", [f"a{number}" for number in range(9)]]


class Lies(str):
    def __eq__(self, other):
        return True

    __hash__ = None


class Point(collections.namedtuple("Point", "x y")):
    pass


class Colour(enum.Enum):
    RED = 1


@dataclass
class Pair:
    left: int
    note: str = field(default="", compare=False)


class Own:
    def __init__(self, value):
        self._value = value

    def __eq__(self, other):
        return True


def test_a_subclass_is_what_its_builtin_holds():
    assert (sent(Lies("a")), type(sent(Lies("a")))) == ("a", str)
    assert sent(Point(1, 2)) == (1, 2)
    assert sent({Point(1, 2): [Lies("b")]}) == {(1, 2): ["b"]}


def test_objects_go_by_what_takes_part_in_their_comparison():
    assert sent(Pair(1, "a")) == sent(Pair(1, "b")) != sent(Pair(2))
    assert sent(Own(1)) == sent(Own(1)) != sent(Own(2))
    assert sent(Colour.RED) == Thing("enum", "tests:Colour", "RED")


def test_what_compares_by_identity_is_itself_alone_and_only_in_its_process():
    encoder, one, two = Encoder(), object(), object()
    forms = [encoder.form(value) for value in (one, one, two)]
    first, again, other = (decode(form, "live") for form in forms)
    assert first == again != other
    assert first != decode(forms[0], "known")


def test_classes_and_functions_of_modules_go_by_name():
    assert sent(ValueError) == Thing("named", "builtins:ValueError")
    assert sent(json.loads) == Thing("named", "json:loads")
    assert sent(lambda: 1).tag == "identity"
    assert sent(re.compile("a+")) == sent(re.compile("a+")) != sent(re.compile("a+", re.DOTALL))


def loop():
    value = []
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(100):
        value = [value]
    return value


class Trap:
    def __init__(self):
        self.open = 1

    def __eq__(self, other):
        return True

    def __getattribute__(self, name):
        raise KeyError(name)


@pytest.mark.parametrize("make", [loop, deep, lambda: list(range(30_000)), lambda: "x" * 300_000, Trap])
def test_what_has_no_plain_form_is_opaque(make):
    assert sent(make()) is OPAQUE


def test_an_iterator_is_only_itself():
    values = iter([1])
    assert sent(values) == sent(values)
    assert sent(values).tag == "identity"


@pytest.mark.parametrize(
    "form",
    [
        1.5, ["opaque", None], [], ["list"], ["list", 1], ["tuple", {}], ["dict", [[1]]], ["set", [["list", []]]],
        ["int", "zz"], ["int", 3], ["float", None], ["bytes", "x"], ["range", [1, 2, 0]], ["range", 3],
        ["decimal", "x"],
        ["fraction", [1, 0]], ["datetime", "soon"], ["uuid", ""], ["path", [1, 2]], ["parts", ["a", 1]], ["odd", 1],
        {"a": 1}, ["list", [["list", [1.5]]]], ["named", "x" * 10**6], ["identity", ["a", "b"]],
    ],
    ids=repr,
)  # fmt: skip
def test_what_no_encoder_writes_is_opaque(form):
    assert decode(form) is OPAQUE


def test_depth_and_size_are_bounded():
    form = 0
    for _ in range(5000):
        form = ["list", [form]]
    assert decode(form) is OPAQUE
    assert decode(["list", [0] * 50_000]) is OPAQUE
