"""Secrets go, everything that an edit, a hash or an id depends on stays."""

import json
import random
import re._parser as re_parser  # the tree of a regular expression, to make texts from it
import string
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.redaction import Redactor, find_secrets
from composer_replication.redaction import redactor as redactor_module
from composer_replication.redaction.gitleaks import GENERIC, load_rules
from composer_replication.redaction.scanner import scanner
from composer_replication.redaction.spans import encode
from tests.canaries import canaries

DATA = Path(redactor_module.__file__).parent.parent / "data" / "redaction"
UPSTREAM = {
    entry["id"]: entry["regex"]
    for entry in tomllib.loads((DATA / "gitleaks.toml").read_text(encoding="utf-8"))["rules"]
    if "regex" in entry
}
RE2_TO_PYTHON = {
    "[[:alnum:]]": "[A-Za-z0-9]",
    "\\z": "\\Z",
    "(?i)": "",
    "(?-i:": "(?:",
    "(?i:": "(?:",
    r"(?:[ \t\w.-]{0,20})": "_api_key",
}
KEYWORD_ONLY_NEARBY = ("airtable-personnal-access-token", "facebook-access-token")
# The upstream JWT rule also takes headers that are no JSON object; ours begin with {" like real ones.
VENDOR_RULES = [rule for rule in load_rules() if rule.kind not in (GENERIC, "jwt")]
RANDOM = random.Random(7)
GITHUB = "ghp_" + "".join(RANDOM.choices(string.ascii_letters, k=35)) + "7"
AWS = "AKIA" + "".join(RANDOM.choices("ABCDEFGHJKLMNPQRSTUVWXYZ234567", k=16))
PASSWORD = "Zk4vQ9wLm2"


@pytest.fixture
def redactor():
    return Redactor(environ={})


def redact(text):
    return Redactor(environ={}).text(text)


# Placeholders


def test_placeholders_are_typed_numbered_and_stable(redactor):
    other = AWS[:-4] + "QQ22"
    assert redactor.text(f"a {AWS} b {other} c {AWS}") == (
        "a <SECRET:aws-access-token:1> b <SECRET:aws-access-token:2> c <SECRET:aws-access-token:1>"
    )
    assert redactor.text(f"later {other}") == "later <SECRET:aws-access-token:2>"
    assert redactor.counts == {"aws-access-token": 4}


def test_a_secret_that_was_named_once_is_known_where_it_stands_alone(redactor):
    assert redactor.text(f"DB_PASSWORD={PASSWORD}") == "DB_PASSWORD=<SECRET:assigned-secret:1>"
    assert redactor.text(f"psql says {PASSWORD} is wrong") == "psql says <SECRET:assigned-secret:1> is wrong"


def test_the_more_specific_kind_names_a_secret(redactor):
    assert redactor.text(f"GITHUB_TOKEN={GITHUB}") == "GITHUB_TOKEN=<SECRET:github-pat:1>"


def test_no_end_of_a_longer_secret_stays(redactor):
    """A token longer than its rule knows, and a value that is more than the token in it."""
    assert redactor.text("glpat-" + GITHUB[4:] + " x") == "<SECRET:gitlab-pat:1> x"
    assert redactor.text(f"A_TOKEN={GITHUB}.{PASSWORD} x") == "A_TOKEN=<SECRET:github-pat:1> x"


def test_the_same_text_gives_the_same_result():
    text = "\n".join(canary.text for canary in canaries(3))
    assert redact(text) == redact(text)


# What goes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/zoe/src/a.py", "/home/user1/src/a.py"),
        ("/Users/zoe.q/a /Users/max/b /Users/zoe.q", "/Users/user1/a /Users/user2/b /Users/user1"),
        ("C:\\Users\\Zoe Quist\\x", "C:\\Users\\user1\\x"),
        ("C:\\\\Users\\\\zoe\\\\x", "C:\\\\Users\\\\user1\\\\x"),
        ("C:/Users/zoe/x and /mnt/c/Users/zoe/x", "C:/Users/user1/x and /mnt/c/Users/user1/x"),
        ("~/.claude/projects/-Users-zoe-src-app", "~/.claude/projects/-Users-user1-src-app"),
        ("-I/home/zoe/include", "-I/home/user1/include"),
        ("Zoe <zoe@acme.io>, max+x@acme.io", "Zoe <user1@example.com>, user2@example.com"),
        ("mailto:zoe@acme.io", "mailto:user1@example.com"),
        (f"postgres://app:{PASSWORD}@db:5432/x", "postgres://app:<SECRET:url-password:1>@db:5432/x"),
        (f"redis://:{PASSWORD}@h", "redis://:<SECRET:url-password:1>@h"),
        (f"https://a:p@{PASSWORD}@h.io/", "https://a:<SECRET:url-password:1>@h.io/"),
        (f"password: {PASSWORD}\nuser: app", "password: <SECRET:assigned-secret:1>\nuser: app"),
        (f'export A_SECRET="{PASSWORD}" # x', 'export A_SECRET="<SECRET:assigned-secret:1>" # x'),
        (f"Cookie: a=1; sid={PASSWORD}", "Cookie: <SECRET:cookie:1>"),
        ("DB_PASSWORD=thundercloudy", "DB_PASSWORD=<SECRET:assigned-secret:1>"),
    ],
)
def test_secrets_and_names_go_and_the_rest_stays(text, expected):
    assert redact(text) == expected


# What stays


@pytest.mark.parametrize(
    "text",
    [
        "commit 9367cf006be9a1b2c3d4e5f60718293a4b5c6d7e",
        "sha256:" + "9f86d081884c7d65" * 4,
        "cloudflare/wrangler-action@9367cf006be9a1b2c3d4e5f60718293a4b5c6d7e",
        "sourcegraph at 9367cf006be9a1b2c3d4e5f60718293a4b5c6d7e",
        "sentry: 9367cf006be9a1b2c3d4e5f60718293a",
        "id 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        '"integrity": "sha512-' + "Ab3/" * 21 + 'xQ=="',
        "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAA" * 40,
        "toolu_01A09q90qw90lq917835lq9 call_abc123DEF456ghi789JKL msg_01XFDUDYJgAACzvnptvVoYEL",
        "/root/x /home/user/x /home/user1/x /Users/Shared/x /home/runner/work ${HOME}/home/x src/home/zoe",
        "/api/users/42 https://acme.io/home/zoe app/Users/List.tsx",
        "git@github.com:a/b.git noreply@anthropic.com zoe@example.com icon@2x.png react@18.2.0 @app.route",
        "user:pass@host http://user:password@host postgres://postgres:postgres@localhost ://${U}:${P}@h",
        "API_KEY=your-api-key-here TOKEN=$TOKEN SECRET=${SECRET} A_KEY=true B_TOKEN=12345 C_KEY=/etc/key.pem",
        "password: string; token: Optional[str] = None; secret = get_secret()",
        "max_tokens=4096, token_count: 12345678, primary_key=users_2024_id_idx",
        'tokenizer = "Qwen2TokenizerFast"; "token_type": "Bearer1234"; self.token_mixer = Sam3LiteMixer(config)',
        "aws example AKIAIOSFODNN7EXAMPLE",
        "r8_surface_map_of_the_second_layer_2 xai-language-model-client-for-node-18 mask-9367cf006be9a1b2c3d4e5f60718",
        "gsk_" + "x" * 52 + " xai-your-api-key-here sbp_0123 my_r8_" + "aB3" * 12,
        "Authorization: Bearer $TOKEN and Authorization: Bearer <token>",
        "if '-----BEGIN PRIVATE KEY-----' in text: raise",
        "password_file=/run/secrets/db1 SECRET_NAME=prod/db1234",
    ],
)
def test_look_alikes_stay(redactor, text):
    assert redactor.text(text) is text
    assert not redactor.counts
    assert not find_secrets(text, environ={}, personal=True)


def test_random_strings_are_reported_and_left(redactor):
    redactor.text("9367cf006be9a1b2c3d4e5f60718293a4b5c6d7e 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
    assert redactor.reported == {"hex-digest": 1, "uuid": 1}


# JSON and messages


def test_json_values_are_redacted_after_decoding(redactor):
    escaped = "".join(f"\\u{ord(c):04x}" for c in GITHUB)
    assert GITHUB not in redactor.json_text(f'{{"b":[{{"c":"x {escaped}"}}],"a":1}}')
    assert redactor.counts == {"github-pat": 1}


def test_json_is_dumped_again_only_when_something_changed(redactor):
    spaced = '{ "b" : 1.50, "a" : ["x"] }'
    assert redactor.json_text(spaced) is spaced
    assert redactor.json_text(f'{{ "b": 2, "a": "{AWS}" }}') == '{"a":"<SECRET:aws-access-token:1>","b":2}'


def test_a_key_gives_its_value_away():
    arguments = json.dumps({"password": PASSWORD[:7], "note": "ok", "headers": {"X-Api-Key": PASSWORD + "ab"}})
    redacted = json.loads(Redactor(environ={}).json_text(arguments))
    assert redacted["password"] == "<SECRET:assigned-secret:1>"
    assert redacted["headers"]["X-Api-Key"].startswith("<SECRET:")
    assert redacted["note"] == "ok"


def test_a_repeated_key_hides_nothing(redactor):
    assert AWS not in redactor.json_text(f'{{"a":"{AWS}","a":"x"}}')


def test_text_that_is_no_json_is_text(redactor):
    assert redactor.json_text(f'{{"a": "{AWS}') == '{"a": "<SECRET:aws-access-token:1>'


# The environment, the second gate, failures


def test_values_of_secret_variables_are_found_anywhere():
    environ = {"ACME_TOKEN": "plainlookingword", "ACME_KEY": "/etc/some/key", "HOME": "homevalue", "X_SECRET": "short"}
    text = "plainlookingword /etc/some/key homevalue short"
    assert Redactor(environ=environ).text(text) == "<SECRET:environment-value:1> /etc/some/key homevalue short"
    assert [found.kind for found in find_secrets(text, environ=environ)] == ["environment-value"]


def test_environment_is_read_by_default(monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "plainlookingword")
    assert Redactor().text("a plainlookingword") == "a <SECRET:environment-value:1>"


@pytest.mark.parametrize("lead", ["", "ü→", "\ud83d\udc80", "\U0001f600"])
def test_offsets_count_characters(lead):
    text = f"{lead} {AWS} und {lead} /home/zoe/x"
    secret, home = find_secrets(text, environ={}, personal=True)
    assert text[secret.start : secret.end] == AWS
    assert text[home.start : home.end] == "zoe"
    assert find_secrets(text, environ={}) == [secret]


def test_lone_surrogates_pass_through(redactor):
    assert redactor.text(f"\ud800 {AWS} \udfff") == "\ud800 <SECRET:aws-access-token:1> \udfff"


def test_a_failure_inside_comes_out(redactor, monkeypatch):
    def fails(data):
        raise RuntimeError("scan failed")

    monkeypatch.setattr(redactor_module, "count_random_strings", fails)
    with pytest.raises(RuntimeError, match="scan failed"):
        redactor.text("9367cf006be9a1b2c3d4e5f60718293a4b5c6d7e")


def test_a_failing_scan_comes_out_of_json_too(redactor, monkeypatch):
    def fails(data, extra):
        raise ValueError("scan failed")

    monkeypatch.setattr(redactor, "_settle", fails)
    with pytest.raises(ValueError, match="scan failed"):
        redactor.json_text('{"a":"b"}')


# Any text


FRAGMENTS = [canary.text for canary in canaries(1)] + [
    " ", "\n", "\\n", "=", ": ", '"', "'", "/", "-", "@", "<SECRET:jwt:1>", "<SECRET:", "password=", "API_KEY=",
    "Authorization: Bearer ", "Cookie: a=", "://a:", "@h.io", "/home/", "user1", "ü", "\ud800", "curl -u ",
]  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12)), max_size=8).map("".join))
def test_redacting_twice_changes_nothing(text):
    once = redact(text)
    assert redact(once) == once
    assert not find_secrets(once, environ={}, personal=True)


@given(st.text(st.characters(), max_size=60))
def test_text_without_findings_is_the_same_object(text):
    if not find_secrets(text, environ={}, personal=True):
        assert redact(text) is text


def test_a_long_command_whose_values_look_like_commands_settles():
    """It used to leave one secret behind at every sixtieth word, and to need a pass for each of them."""
    redacted = redact("curl " + "-u a:curl " * 1_500)
    assert redacted.count("<SECRET:") == 1_500
    assert "a:curl" not in redacted


@pytest.mark.parametrize(
    "text",
    [
        "@a" * 500_000,
        "eyJ" * 300_000,
        "password=" * 100_000,
        "-----BEGIN PRIVATE KEY-----" * 40_000,
        "".join(random.Random(1).choices(string.ascii_letters + string.digits + "+/", k=1_000_000)),
        "/home/zoe/" * 50_000,
        "-----END PRIVATE KEY-----\n" * 20_000,
        "curl -u a:bcdef1 " * 2_000,
        "echo a | sudo -S " * 10_000,
        "\\" * 500_000,
        "\\u0041\\/" * 40_000,
        "able baby cake " * 20_000,
        (("aB3" * 22)[:64] + "\n") * 5_000,
    ],
    ids=["at", "jwt", "password", "begin", "base64", "home", "end", "curl", "sudo", "slash", "escape", "words", "line"],
)
def test_a_megabyte_of_triggers_takes_seconds(text):
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 8


def test_hits_at_the_edge_of_a_chunk_are_found(monkeypatch):
    from composer_replication.redaction import engine

    monkeypatch.setattr(engine, "CHUNK_BYTES", 64)
    for offset in range(64):
        assert redact("x" * offset + " " + AWS + " y" * 64).count("<SECRET:aws-access-token:1>") == 1


def text_for(regex, chooser):
    """A text that matches the regex: branches, repeats and characters by chance, RE2's flags taken out."""
    for theirs, plain in RE2_TO_PYTHON.items():
        regex = regex.replace(theirs, plain)
    return "".join(_parts(re_parser.parse(regex), chooser))


def _parts(tree, chooser):
    for operator, argument in tree:
        name = str(operator)
        if name == "LITERAL":
            yield chr(argument)
        elif name == "ANY":
            yield "."
        elif name == "IN":
            yield chooser.choice(_members(argument))
        elif name == "BRANCH":
            yield from _parts(chooser.choice(argument[1]), chooser)
        elif name == "SUBPATTERN":
            yield from _parts(argument[-1], chooser)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, _, repeated = argument
            for _ in range(low):
                yield from _parts(repeated, chooser)
        elif name == "NOT_LITERAL":
            yield "a"
        else:
            assert name == "AT", name


def _members(choices):
    made = []
    for operator, argument in choices:
        name = str(operator)
        if name == "LITERAL":
            made.append(chr(argument))
        elif name == "RANGE":
            made += map(chr, range(argument[0], argument[1] + 1))
        elif name == "CATEGORY":
            made += {"WORD": string.ascii_letters + string.digits, "DIGIT": string.digits, "SPACE": " "}.get(
                str(argument).split("_")[-1], "a"
            )
        elif name == "NEGATE":
            return list(string.ascii_letters + string.digits)
    return [c for c in made if c.isprintable()] or [" "]


@pytest.mark.parametrize("rule", VENDOR_RULES, ids=lambda rule: rule.kind)
def test_every_vendor_rule_fires_through_its_literals_and_windows(rule):
    """A text made from the upstream regex: where the rule alone on the whole text fires, the scanner fires too."""
    regex = UPSTREAM[rule.kind]
    chooser = random.Random(rule.kind)
    fired = 0
    for _ in range(12):
        secret_text = text_for(regex, chooser)
        near_keyword = f"{chooser.choice(rule.literals)} " if rule.kind in KEYWORD_ONLY_NEARBY else ""
        data = encode("x " * 2000 + f"\n{near_keyword}{secret_text}\n" + "y " * 2000)
        expected = [secret for _, secret in rule.find(data, 0, len(data))]
        found = scanner().scan(data).found
        got = [(item.start, item.end) for item in found if item.kind == rule.kind]
        assert all(any(start <= low and high <= end for start, end in got) for low, high in expected), secret_text
        fired += bool(expected)
    assert fired, "no text of this rule ever matched it"


# Start-up


def test_importing_the_package_loads_no_engine():
    code = "import sys, composer_replication; assert not {'re2', 'ahocorasick_rs'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tables_are_built_quickly():
    code = (
        "from composer_replication.redaction import Redactor\n"
        "import time; started = time.process_time(); Redactor().text('x'); print(time.process_time() - started)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 0.3
