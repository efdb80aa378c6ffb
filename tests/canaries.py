"""Planted secrets: every kind, in every place where a session can hold one. Reused by the end-to-end test.

Nothing in this file is a key. Prefixes and alphabets are here; the random part is made when the tests run, so that no
scanner of repositories finds a complete key in the source.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from typing import NamedTuple

from composer_replication.records import Message
from tests.canaries_commands import PLAIN, QUOTED

LOWER_HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
LOWER_ALNUM = string.ascii_lowercase + string.digits
UPPER_ALNUM = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
URL_SAFE = ALNUM + "-_"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
WORDS = """
    abandon ability able cabin cable cactus daring dash daughter eager eagle early fabric face faculty gadget gain
    galaxy habit hair half icon idea identify jacket jaguar jar kangaroo keen keep label labor ladder machine mad magic
    naive name napkin oak obey object pact paddle page quality quantum quarter rabbit raccoon race saddle sadness
""".split()
"""Some of the words of BIP 39, of which phrases of wallets are made."""


class Canary(NamedTuple):
    kind: str
    text: str
    secrets: tuple[str, ...]
    """None of these may be in the output."""


class Placement(NamedTuple):
    name: str
    field: str
    """user, assistant, thinking, tool_result or tool_argument."""
    wrap: Callable[[str], str]


class Maker:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chars(self, alphabet: str, size: int) -> str:
        """Random, with a digit and a letter in it, so that it is never a word by accident."""
        while True:
            made = "".join(self._random.choice(alphabet) for _ in range(size))
            if any(c.isdigit() for c in made) or not any(c.isdigit() for c in alphabet):
                return made

    def hex(self, size: int) -> str:
        return self.chars(LOWER_HEX, size)

    def digits(self, size: int) -> str:
        return str(self._random.randint(1, 9)) + self.chars(string.digits, size - 1)

    def uuid(self) -> str:
        return "-".join(self.hex(size) for size in (8, 4, 4, 4, 12))

    def base64(self, size: int) -> str:
        return base64.b64encode(self._random.randbytes(size)).decode()

    def jwt(self) -> str:
        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        return ".".join((
            part({"alg": "HS256", "typ": "JWT"}),
            part({"sub": self.digits(10), "name": self.chars(ALNUM, 8), "iat": int(self.digits(10))}),
            self.chars(URL_SAFE, 42) + "1",
        ))  # fmt: skip

    def mnemonic(self, words: int) -> str:
        return " ".join(self._random.sample(WORDS, words))

    def key_block(self, label: str, lines: int, width: int = 64) -> tuple[str, tuple[str, ...]]:
        body = [self.chars(ALNUM + "+/", width) for _ in range(lines)] + [self.chars(ALNUM, 29) + "="]
        dashes = "-" * 5
        block = "\n".join([f"{dashes}BEGIN {label}{dashes}", *body, f"{dashes}END {label}{dashes}"])
        return block, tuple(body)


def token_shapes(m: Maker) -> dict[str, str]:
    """Keys that their own shape gives away."""
    return {
        "aws-access-key-id": "AKIA" + m.chars(BASE32, 16),
        "aws-temporary-key-id": "ASIA" + m.chars(BASE32, 16),
        "gcp-api-key": "AIza" + m.chars(URL_SAFE, 34) + "7",
        "gcp-oauth-secret-in-env": "GOOGLE_CLIENT_SECRET=GOCSPX-" + m.chars(URL_SAFE, 27) + "4",
        "github-pat": "ghp_" + m.chars(ALNUM, 36),
        "github-fine-grained-pat": "github_pat_" + m.chars(ALNUM, 22) + "_" + m.chars(ALNUM, 59),
        "github-oauth": "gho_" + m.chars(ALNUM, 36),
        "github-app": "ghs_" + m.chars(ALNUM, 36),
        "github-refresh": "ghr_" + m.chars(ALNUM, 36),
        "gitlab-pat": "glpat-" + m.chars(URL_SAFE, 19) + "x",
        "gitlab-runner": "glrt-" + m.chars(URL_SAFE, 19) + "x",
        "slack-bot": "xoxb-" + m.digits(12) + "-" + m.digits(12) + "-" + m.chars(ALNUM, 24),
        "slack-user": "xoxp-" + m.digits(12) + "-" + m.digits(12) + "-" + m.digits(12) + "-" + m.chars(LOWER_HEX, 32),
        "slack-app": "xapp-1-A" + m.chars(UPPER_ALNUM, 10) + "-" + m.digits(13) + "-" + m.hex(64),
        "slack-webhook": f"https://hooks.slack.com/services/T{m.chars(UPPER_ALNUM, 10)}/B{m.chars(UPPER_ALNUM, 10)}/"
        + m.chars(ALNUM, 24),
        "stripe-live": "sk_live_" + m.chars(ALNUM, 24),
        "stripe-restricted": "rk_live_" + m.chars(ALNUM, 24),
        "twilio": "SK" + m.hex(32),
        "sendgrid": "SG." + m.chars(URL_SAFE, 22) + "." + m.chars(URL_SAFE, 42) + "8",
        "openai-project": "sk-proj-" + m.chars(URL_SAFE, 74) + "T3Blbk" + "FJ" + m.chars(URL_SAFE, 73) + "k",
        "openai-classic": "sk-" + m.chars(ALNUM, 20) + "T3Blbk" + "FJ" + m.chars(ALNUM, 20),
        "anthropic": "sk-ant-api03-" + m.chars(URL_SAFE, 93) + "AA",
        "anthropic-oauth": "sk-ant-oat01-" + m.chars(URL_SAFE, 93) + "AA",
        "openrouter": "sk-or-v1-" + m.hex(64),
        "huggingface": "hf_" + m.chars(ALNUM, 34),
        "npm": "npm_" + m.chars(ALNUM, 36),
        "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + m.chars(URL_SAFE, 149) + "w",
        "azure-ad-secret": m.chars(ALNUM, 3) + "8Q~" + m.chars(ALNUM, 34),
        "digitalocean": "dop_v1_" + m.hex(64),
        "databricks": "dapi" + m.hex(32),
        "shopify": "shpat_" + m.hex(32),
        "square": "sq0atp-" + m.chars(ALNUM, 22),
        "linear": "lin_api_" + m.chars(ALNUM, 40),
        "notion": "ntn_" + m.digits(11) + m.chars(ALNUM, 35),
        "grafana": "glsa_" + m.chars(ALNUM, 32) + "_" + m.hex(8),
        "grafana-cloud": "glc_" + m.chars(ALNUM, 80),
        "vault": "hvs." + m.chars(ALNUM, 95),
        "vault-legacy": "s." + m.chars(ALNUM, 24),
        "age-secret-key": "AGE-SECRET-" + "KEY-1" + m.chars(BECH32, 58),
        "telegram-bot": m.digits(10) + ":AA" + m.chars(URL_SAFE, 32) + "q",
        "discord-webhook": "https://discord.com/api/webhooks/" + m.digits(18) + "/" + m.chars(ALNUM, 68),
        "teams-webhook": f"https://acme.webhook.office.com/webhookb2/{m.uuid()}@{m.uuid()}/IncomingWebhook/{m.hex(32)}/{m.uuid()}",
        "mailchimp-in-env": "MAILCHIMP_API_KEY=" + m.hex(32) + "-us12",
        "doppler": "dp.pt." + m.chars(ALNUM, 43),
        "pulumi": "pul-" + m.hex(40),
        "postman": "PMAK-" + m.hex(24) + "-" + m.hex(34),
        "rubygems": "rubygems_" + m.hex(48),
        "planetscale": "pscale_tkn_" + m.chars(ALNUM, 43),
        "new-relic-in-env": "NEW_RELIC_API_KEY=NRAK-" + m.chars(UPPER_ALNUM, 27),
        "perplexity": "pplx-" + m.chars(ALNUM, 48),
        "artifactory": "AKCp" + m.chars(ALNUM, 69),
        "sentry-user": "sntryu_" + m.hex(64),
        "heroku-v2": "HRKU-AA" + m.chars(ALNUM, 58),
        "bedrock": "ABSK" + m.chars(ALNUM, 120),
        "jwt": m.jwt(),
    }  # fmt: skip


def service_keys(m: Maker) -> dict[str, str]:
    """The same of services for models and agents, which gitleaks does not know."""
    return {
        "groq": "gsk_" + m.chars(ALNUM, 52),
        "xai": "xai-" + m.chars(ALNUM, 80),
        "nvidia": "nvapi-" + m.chars(URL_SAFE, 63) + "7",
        "together": "tgp_v1_" + m.chars(URL_SAFE, 42) + "7",
        "cerebras": "csk-" + m.chars(LOWER_ALNUM, 48),
        "replicate": "r8_" + m.chars(ALNUM, 37),
        "tavily": "tvly-dev-" + m.chars(ALNUM, 32),
        "jina": "jina_" + m.hex(32) + m.chars(URL_SAFE, 27) + "x",
        "supabase": "sbp_" + m.hex(40),
        "e2b": "e2b_" + m.hex(40),
        "langsmith": "lsv2_pt_" + m.hex(32) + "_" + m.hex(10),
    }


def named_values(m: Maker) -> list[tuple[str, str, str]]:
    """(kind, text with {}, secret): the name beside it gives the secret away."""
    return [
        ("aws-secret-key", "AWS_SECRET_ACCESS_KEY={}", m.chars(ALNUM, 40)),
        ("azure-storage", "AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net", m.base64(64)),
        ("cloudflare", "CLOUDFLARE_API_TOKEN={}", m.chars(ALNUM, 40)),
        ("datadog", "DATADOG_API_KEY={}", m.hex(40)),
        ("datadog-short", "DD_API_KEY={}", m.hex(32)),
        ("heroku", "HEROKU_API_KEY={}", m.uuid()),
        ("mailgun", "MAILGUN_API_KEY=key-{}", m.hex(32)),
        ("discord-bot", "DISCORD_TOKEN={}", f"M{m.chars(ALNUM, 25)}.{m.chars(ALNUM, 6)}.{m.chars(ALNUM, 38)}"),
        ("twilio-auth-token", "TWILIO_AUTH_TOKEN={}", m.hex(32)),
        ("postgres-url", "postgres://app:{}@db.acme.io:5432/prod", m.chars(ALNUM, 16)),
        ("postgresql-url", "postgresql+psycopg://app:{}@10.0.0.5/prod?sslmode=require", m.chars(ALNUM, 12)),
        ("mysql-url", "mysql://root:{}@mysql.acme.io/shop", m.chars(ALNUM, 14)),
        ("mongodb-url", "mongodb+srv://admin:{}@cluster0.ab1cd.mongodb.net/db", m.chars(ALNUM, 16)),
        ("redis-url", "redis://:{}@cache.acme.io:6379/0", m.chars(ALNUM, 20)),
        ("amqp-url", "amqps://svc:{}@mq.acme.io/vhost", m.chars(ALNUM, 18)),
        ("basic-auth-url", "https://deploy:{}@git.acme.io/repo.git", m.chars(ALNUM, 12)),
        ("token-url", "https://{}@git.acme.io/repo.git", m.chars(ALNUM, 32)),
        ("ado-connection-string", "Server=tcp:sql.acme.io;User Id=sa;Password={};Encrypt=true", m.chars(ALNUM, 16)),
        ("libpq-dsn", "host=db.acme.io user=app password={} dbname=prod", m.chars(ALNUM, 16)),
        ("bearer-header", "Authorization: Bearer {}", m.chars(ALNUM, 40)),
        ("basic-header", "Authorization: Basic {}", m.base64(30)),
        ("token-header", "Authorization: token {}", m.hex(40)),
        ("api-key-header", "X-Api-Key: {}", m.chars(ALNUM, 32)),
        ("curl-user", "curl -u deploy:{} https://acme.io/x", m.chars(ALNUM, 20)),
        ("env-password", "DB_PASSWORD={}", m.chars(ALNUM + "!#%", 14) + "7a"),
        ("env-plain-word-password", "DB_PASSWORD={}", "thundercloudy"),
        ("env-quoted", 'export SESSION_SECRET="{}"', m.chars(ALNUM, 32)),
        ("env-single-quoted", "STRIPE_WEBHOOK_SECRET='{}'", m.chars(ALNUM, 32)),
        ("env-key", "ENCRYPTION_KEY={}", m.base64(32)),
        ("powershell-env", '$env:API_TOKEN = "{}"', m.chars(ALNUM, 32)),
        ("yaml-password", "database:\n  user: app\n  password: {}", m.chars(ALNUM, 14)),
        ("yaml-quoted", "api_key: '{}'", m.chars(ALNUM, 28)),
        ("json-client-secret", '{{"client_id": "acme", "client_secret": "{}"}}', m.chars(ALNUM, 40)),
        ("python-keyword", 'connect(host="db", password="{}")', m.chars(ALNUM, 12)),
        ("toml-token", 'token = "{}"', m.chars(ALNUM, 36)),
        ("query-string", "https://api.acme.io/v1/items?limit=5&api_key={}&page=2", m.chars(ALNUM, 32)),
        ("command-option", "acme login --token {} --verbose", m.chars(ALNUM, 30)),
        ("cookie", "Cookie: theme=dark; sessionid={}; csrftoken=abc", m.chars(ALNUM, 32)),
        ("set-cookie", "Set-Cookie: connect.sid={}; Path=/; HttpOnly", "s%3A" + m.chars(ALNUM, 40)),
        ("npmrc", "//registry.npmjs.org/:_authToken={}", m.uuid()),
        ("npmrc-auth", "_auth={}", m.base64(24)),
        ("netrc", "machine api.acme.io\n  login deploy\n  password {}", m.chars(ALNUM, 16)),
        ("docker-auth", '{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{}"}}}}}}', m.base64(24)),
        ("kubeconfig-token", "users:\n- name: admin\n  user:\n    token: {}", m.chars(ALNUM, 48)),
        ("kubeconfig-key", "    client-key-data: {}", m.base64(240)),
        ("azure-sas", "https://acme.blob.core.windows.net/c?sv=2022-11-02&sig={}&se=2027", m.chars(ALNUM, 43) + "%3D"),
    ]  # fmt: skip


def personal_data(m: Maker) -> list[tuple[str, str, str]]:
    return [
        ("home-linux", "/home/{}/src/app.py", "zoe" + m.chars(LOWER_ALNUM, 6) + "q"),
        ("home-mac", "/Users/{}/Documents/plan.md", "zoe." + m.chars(LOWER_ALNUM, 6) + "q"),
        ("home-windows", "C:\\Users\\{}\\AppData\\Local\\x.log", "Zoe" + m.chars(LOWER_ALNUM, 6) + "q"),
        ("home-windows-space", "C:\\Users\\{}\\Desktop", "Zoe Q" + m.chars(LOWER_ALNUM, 6)),
        ("home-git-bash", "/c/Users/{}/repo", "zoe" + m.chars(LOWER_ALNUM, 6) + "q"),
        ("home-wsl", "/mnt/c/Users/{}/repo", "zoe" + m.chars(LOWER_ALNUM, 6) + "q"),
        ("home-project-folder", "~/.claude/projects/-Users-{}-src-app/x.jsonl", "zoe" + m.chars(LOWER_ALNUM, 6) + "q"),
        ("home-tilde", "~{}/src/app.py", "zoe" + m.chars(LOWER_ALNUM, 6) + "q"),
        ("email", "{}@acme-widgets.co.uk", "zoe.q" + m.chars(LOWER_ALNUM, 5) + "q"),
    ]


def other_places(m: Maker) -> list[tuple[str, str, str]]:
    """What is known by its place or by its own form: files of accounts, hashes, signatures, elements of XML."""
    hash_chars = ALNUM + "./"
    return [
        ("xml-password", "<server>\n  <password>{}</password>\n</server>", m.chars(ALNUM, 12)),
        ("xml-property", '<property name="db.password">{}</property>', m.chars(ALNUM, 12)),
        ("xml-attribute-pair", '<add key="DbPassword" value="{}"/>', m.chars(ALNUM, 12)),
        ("plist-password", "<key>Password</key>\n  <string>{}</string>", m.chars(ALNUM, 12)),
        ("pgpass", "db.acme.io:5432:prod:app:{}", m.chars(ALNUM, 12)),
        ("pgpass-any", "*:*:*:app:{}", m.chars(ALNUM, 12)),
        ("shadow-sha512", "root:$6${}:19700:0:99999:7:::", m.chars(ALNUM, 8) + "$" + m.chars(hash_chars, 86)),
        ("shadow-yescrypt", "zed:$y$j9T${}:19700:0:99999:7:::", m.chars(ALNUM, 22) + "$" + m.chars(hash_chars, 43)),
        ("shadow-md5", "zed:$1${}:19700:0:99999:7:::", m.chars(ALNUM, 8) + "$" + m.chars(hash_chars, 22)),
        ("htpasswd-apr1", "deploy:$apr1${}", m.chars(ALNUM, 8) + "$" + m.chars(hash_chars, 22)),
        ("bcrypt", "deploy:$2y$10${}", m.chars(hash_chars, 53)),
        ("argon2", "$argon2id$v=19$m=65536,t=3,p=4${}", m.chars(ALNUM, 22) + "$" + m.chars(ALNUM, 43)),
        ("django-hash", "pbkdf2_sha256$600000${}", m.chars(ALNUM, 22) + "$" + m.base64(32)),
        ("ldap-ssha", "userPassword: {{SSHA}}{}", m.base64(24)),
        ("s3-signature", "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature={}", m.hex(64)),
        ("s3-session", "https://b.s3.amazonaws.com/k?X-Amz-Security-Token={}&X-Amz-Expires=9", m.chars(ALNUM, 120)),
        ("s3-old-signature", "https://b.s3.amazonaws.com/k?Expires=1700000&Signature={}", m.chars(ALNUM, 27) + "%3D"),
        ("aws4-header", "Authorization: AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature={}", m.hex(64)),
        ("gcs-signature", "https://storage.googleapis.com/b/k?X-Goog-Signature={}", m.hex(128)),
        ("hub-signature", "X-Hub-Signature-256: sha256={}", m.hex(64)),
        ("mnemonic", "{}", m.mnemonic(12)),
        ("mnemonic-24", "{}", m.mnemonic(24)),
    ]  # fmt: skip


def commands(m: Maker) -> list[tuple[str, str, str]]:
    plain = [(f"command-{kind}", text, m.chars(ALNUM, 11)) for kind, text in PLAIN.items()]
    return plain + [(f"command-{kind}", text, m.chars(ALNUM, 9) + "#!") for kind, text in QUOTED.items()]


def partial_keys(m: Maker) -> list[Canary]:
    """As `head`, `tail`, `sed -n` and `grep` print them."""
    block, body = m.key_block("RSA " + "PRIVATE KEY", 12)
    lines = block.split("\n")
    openssh, openssh_body = m.key_block("OPENSSH " + "PRIVATE KEY", 6, width=70)
    der = "MIIEpAIBAAKCAQEA" + m.chars(ALNUM, 48)
    named = "b3BlbnNzaC1rZXktdjEAAAAA" + m.chars(ALNUM, 46)
    return [
        Canary("pem-head", "\n".join(lines[:3]), body[:2]),
        Canary("pem-tail", "\n".join(lines[-4:]), body[-3:]),
        Canary("pem-last-line", "\n".join(lines[-2:]), body[-1:]),
        Canary("pem-middle", "\n".join(lines[4:9]), body[3:8]),
        Canary("pem-body-end", "\n".join(lines[6:-1]), body[5:]),
        Canary("ssh-middle", "\n".join(openssh.split("\n")[2:5]), openssh_body[1:4]),
        Canary("pem-first-line", der, (der[-24:],)),
        Canary("ssh-first-line", named, (named[-24:],)),
    ]


def key_blocks(m: Maker) -> list[Canary]:
    blocks = [
        ("pem-rsa", "RSA " + "PRIVATE KEY", 24),
        ("pem-pkcs8", "PRIVATE KEY", 24),
        ("pem-ec", "EC " + "PRIVATE KEY", 2),
        ("ssh-openssh", "OPENSSH " + "PRIVATE KEY", 6),
        ("pgp", "PGP " + "PRIVATE KEY BLOCK", 10),
    ]
    made: list[Canary] = []
    for kind, label, lines in blocks:
        block, body = m.key_block(label, lines)
        made.append(Canary(kind, block, body))
    block, body = m.key_block("RSA " + "PRIVATE KEY", 12)
    made.append(Canary("pem-truncated", block.split("-----END")[0].rsplit("\n", 2)[0], body[:-1]))
    block, body = m.key_block("PRIVATE KEY", 12)
    made.append(Canary("pem-one-line-escaped", "GCP_KEY='" + block.replace("\n", "\\n") + "\\n'", body))
    return made


def canaries(seed: int = 0) -> list[Canary]:
    m = Maker(seed)
    made = [Canary(kind, text, (_secret_part(text),)) for kind, text in token_shapes(m).items()]
    made += [Canary(kind, text.format(secret), (secret,)) for kind, text, secret in named_values(m)]
    made += [Canary(kind, text.format(secret), (secret,)) for kind, text, secret in personal_data(m)]
    made += key_blocks(m)
    made += [Canary(kind, text.format(secret), (secret,)) for kind, text, secret in [*other_places(m), *commands(m)]]
    made += partial_keys(m)
    return made + [Canary(kind, text, (_secret_part(text),)) for kind, text in service_keys(m).items()]


def _secret_part(text: str) -> str:
    """The end of a token: half a secret is a leak too."""
    return text[-12:]


def _lines(text: str, mark: str, end: str = "\n") -> str:
    return end.join(mark + line for line in text.splitlines())


PLACEMENTS = (
    Placement("user_text", "user", lambda text: f"Please use this:\n{text}\nand tell me when it works."),
    Placement("assistant_text", "assistant", lambda text: f"I found this in the file:\n\n{text}\n\nI will not use it."),
    Placement("thinking", "thinking", lambda text: f"The config says\n{text}\nso the login should work."),
    Placement("nested_argument", "tool_argument", lambda text: json.dumps({"edits": [{"new": [f"x\n{text}\ny"]}]})),
    Placement("tool_result", "tool_result", lambda text: f"     1→# settings\n{_lines(text, '     2→')}\n     9→# end"),
    Placement("code_block", "assistant", lambda text: f"```sh\n{text}\n```"),
    Placement("escaped_json", "tool_result", lambda text: json.dumps({"stdout": f"start\n{text}\nend", "code": 0})),
    Placement("escaped_twice", "tool_result", lambda text: json.dumps({"body": json.dumps({"out": f"a\n{text}\nb"})})),
    Placement("heredoc", "tool_argument", lambda text: json.dumps({"command": f"cat > x <<'EOF'\n{text}\nEOF\nls"})),
    Placement("whole_string", "tool_result", lambda text: text),
    Placement("at_end", "user", lambda text: f"it is {text}"),
    Placement("at_start", "user", lambda text: f"{text} is it"),
    Placement("glued", "user", lambda text: f"see(\"{text}\"),then `{text}`."),
    Placement("crlf", "tool_result", lambda text: f"a=1\r\n{_lines(text, '', chr(13) + chr(10))}\r\nb=2\r\n"),
    Placement("diff_line", "tool_result", lambda text: f"@@ -1 +1 @@\n x\n{_lines(text, '-')}\n{_lines(text, '+')}\n"),
    Placement("beside_unicode", "user", lambda text: f"Schlüssel → „{text}“ ✓ \ud83d"),
    Placement("read_in_json", "tool_result", lambda text: json.dumps({"content": _lines(text, "     2→")})),
    Placement("tabs_in_json", "tool_result", lambda text: json.dumps([{"t": f"1\tx\n{_lines(text, '2' + chr(9))}"}])),
    Placement("grep_r", "tool_result", lambda text: f"etc/a.conf:x\n{_lines(text, 'etc/app-2.d/a.conf:')}\n"),
    Placement("grep_rn_context", "tool_result", lambda text: _lines(text, "etc/a.conf-12-")),
    Placement("unicode_escapes", "tool_result", lambda text: _escaped(text, "=<>&'+:")),
    Placement("slash_escapes", "tool_result", lambda text: json.dumps({"out": f"a\n{text}"}).replace("/", "\\/")),
    Placement("escaped_thrice", "tool_result", lambda text: json.dumps([json.dumps([json.dumps([f"a\n{text}\nb"])])])),
    Placement("terminal_colour", "tool_result", lambda text: f"\x1b[32m{text}\x1b[0m"),
)  # fmt: skip


def _escaped(text: str, characters: str) -> str:
    """JSON as Go and others write it, with more escapes than it needs."""
    return "".join(f"\\u{ord(c):04x}" if c in characters else c for c in json.dumps({"stdout": f"a\n{text}\nb"}))


def planted_messages(canary: Canary, placement: Placement) -> tuple[list[Message], str]:
    """A short conversation with the canary in one place, and the thinking of its assistant turn."""
    planted = placement.wrap(canary.text)
    at = {"user": "do it", "assistant": "On it.", "thinking": "", "tool_result": "ok", "tool_argument": '{"a":1}'}
    at[placement.field] = planted
    messages: list[Message] = [
        {"role": "user", "content": at["user"]},
        {
            "role": "assistant",
            "content": at["assistant"],
            "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "Bash", "arguments": at["tool_argument"]}}
            ],
        },
        {"role": "tool", "tool_call_id": "toolu_1", "content": at["tool_result"]},
    ]
    return messages, at["thinking"]
