"""Personal data with a fixed shape: the account name in a home directory, and e-mail addresses.

Only the name goes, the rest of a path stays, so that the edits of a session still match its files. Left alone: accounts
that many machines share (`/home/user`, `/home/runner`, `/Users/Shared` ...), names that are placeholders already,
`git@host` remotes, no-reply addresses and the reserved example domains.

Not caught: the account name outside a path (`ls -l`, `whoami`), names of people, hosts and companies, IP addresses.
"""

from __future__ import annotations

import re

from .boundaries import AFTER_ESCAPE
from .credentials import Finder
from .spans import Found, Rank

HOME = "home-directory"
EMAIL = "email"

SHARED_ACCOUNTS = frozenset(
    b"""
    user users username yourname your-name yourusername your-username your_username name me you root admin
    administrator shared public default defaultuser0 all guest runner runneradmin runner-admin ubuntu debian fedora
    centos alpine arch pi vscode node circleci gitpod codespace codespaces app appuser app-user ec2-user vagrant coder
    jovyan sandbox agent dev developer docker jenkins git gitlab-runner www-data linuxbrew builder build nonroot
    openhands swe-agent claude codex testuser test someone somebody site ftp http nobody postgres mysql oracle steam
    bin etc usr var tmp lib src opt my project projects workspace
    """.split()
)
_PLACEHOLDER_ACCOUNT = re.compile(rb"(?i)(?:user|xxx+|redacted)[-_]?\d*\Z")
_NAME = rb"[A-Za-z0-9_\x80-\xff](?:[A-Za-z0-9._\x80-\xff-]{0,62}[A-Za-z0-9_\x80-\xff])?"
_STARTS_PATH = rb"(?:(?<![A-Za-z0-9_.~})\]$*])|(?<=(?<![A-Za-z0-9_])-[A-Za-z])|" + AFTER_ESCAPE
_BEFORE_HOME = re.compile(
    _STARTS_PATH + rb"|(?<=/mnt)|(?<=/var)|(?<=/usr)|(?<=/net)|(?<=/nfs)|(?<=/data)|(?<=/export))"
)
_BEFORE_USERS = re.compile(_STARTS_PATH + rb"|(?<=/[a-zA-Z])|(?<=\b[a-zA-Z]:)|(?<=/Data))")
_ANYWHERE = re.compile(rb"")
_LINUX_HOME = re.compile(rb"/home/(" + _NAME + rb")")
_MAC_HOME = re.compile(rb"/Users/(" + _NAME + rb")")
_ENCODED_HOME = re.compile(rb"(?i:%2Fhome%2F|%2FUsers%2F|%5CUsers%5C)(" + _NAME + rb")")
_WINDOWS_NAME = rb"[^\\/:*?\"'<>|\s`,;()\[\]{}$%]"
_WINDOWS_HOME = re.compile(
    rb"(?<=[:\\])\\(?i:users)\\{1,4}(" + _WINDOWS_NAME + rb"{1,60}(?:(?: " + _WINDOWS_NAME + rb"{1,40}){1,2}(?=\\))?)"
)
_TILDE_HOME = re.compile(
    rb"(?:(?<![A-Za-z0-9_./~)\]\\%^])|" + AFTER_ESCAPE + rb")~([a-z_][a-z0-9_.-]{1,31})/(?=[\w.$*{-]|\Z|[\s\"'`)])"
)
_PROJECT_FOLDER = re.compile(rb"(?:(?<![A-Za-z0-9_-])-Users|(?<=[/\\])-home)-([A-Za-z0-9]{1,60})(?=-)")

_DOMAIN = re.compile(
    rb"(?<=[A-Za-z0-9_])@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24})(?![A-Za-z0-9_@])"
)
_LOCAL_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-")
_IMPERSONAL_LOCAL = re.compile(rb"(?i)(?:git|no-?reply|do-?not-?reply|donotreply|user\d+)\Z")
_RESERVED_DOMAIN = re.compile(rb"(?i)(?:.*\.)?(?:example\.(?:com|org|net)|example|test|invalid|localhost)\Z")
_FILE_ENDING = re.compile(
    rb"(?i).*\.(?:png|jpe?g|gif|svg|webp|ico|css|js|mjs|cjs|tsx?|jsx|json|tgz|zip|lock|html?|ya?ml|toml|txt|md)\Z"
)
_INSIDE_URL = re.compile(rb"://[^\s/\"'<>]{0,300}\Z")


def account(pattern: re.Pattern[bytes], before: re.Pattern[bytes] = _ANYWHERE) -> Finder:
    """The name of an account, which the first group of the pattern holds. What must stand before it is looked at last:
    that costs most, and most names are shared ones."""

    def find(data: bytes, start: int) -> Found | None:
        match = pattern.match(data, start)
        if match is None:
            return None
        name = match[1]
        if name.lower() in SHARED_ACCOUNTS or _PLACEHOLDER_ACCOUNT.match(name) or not before.match(data, start):
            return None
        return Found(HOME, *match.span(1), Rank.PERSONAL)

    return find


def email(data: bytes, start: int) -> Found | None:
    match = _DOMAIN.match(data, start)
    if match is None or _RESERVED_DOMAIN.match(match[1]) or _FILE_ENDING.match(match[1]):
        return None
    local_start = start
    while local_start > max(0, start - 64) and data[local_start - 1] in _LOCAL_BYTES:
        local_start -= 1
    while local_start < start and not data[local_start : local_start + 1].isalnum():
        local_start += 1
    if data[local_start - 1 : local_start] == b"\\" and data[local_start : local_start + 1] in (b"n", b"r", b"t"):
        local_start += 1
    local = data[local_start:start]
    if not local or _IMPERSONAL_LOCAL.match(local) or _INSIDE_URL.search(data, max(0, local_start - 310), local_start):
        return None
    return Found(EMAIL, local_start, match.end(), Rank.PERSONAL)


FINDERS: dict[Finder, tuple[str, ...]] = {
    account(_LINUX_HOME, _BEFORE_HOME): ("/home/",),
    account(_MAC_HOME, _BEFORE_USERS): ("/users/",),
    account(_ENCODED_HOME): ("%2fhome%2f", "%2fusers%2f", "%5cusers%5c"),
    account(_WINDOWS_HOME): ("\\users\\",),
    account(_TILDE_HOME): ("~",),
    # `-Users-NAME-repo`: how Claude Code names the folder of a project. A dash in the name cannot be told apart.
    account(_PROJECT_FOLDER): ("-users-", "-home-"),
    email: ("@",),
}
