"""What a command of a shell does, by the program it runs: one visible table of programs.

Reads a resolved `ShellCommand`, gives acts. Python source is left to `acts`, which knows the scripts. A program that is
not in the table is a `run` act and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from ..conduct import Act, Verb
from .printing import found_patterns
from .script import ShellCommand, joined

READERS = frozenset(
    "cat head tail less more nl strings xxd od hexdump hd tac rev sort uniq cut paste fold column bat batcat iconv jq"
    " yq diff cmp comm base64 zcat source . file view vimdiff wc sqlite3 mapfile expand fmt pr look tee sum".split()
)
LISTERS = frozenset({"ls", "tree", "du", "stat", "dir", "exa", "eza", "realpath", "readlink", "whereis"})
DELETERS = frozenset({"rm", "unlink", "shred", "rmdir"})
SEARCHERS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "ripgrep"})
UNPACKERS = frozenset(
    "unzip gunzip zcat bzcat xzcat zstdcat bunzip2 unxz 7z 7za bsdtar cpio zipinfo unzstd ar funzip zgrep unrar".split()
)
DECOMPILERS = frozenset(
    "uncompyle6 decompyle3 pycdc pycdas decompyle++ unpyc37 unpyc3 pydisasm javap cfr procyon objdump readelf"
    " nm jadx fernflower zlib-flate pigz qpdf gdb lldb r2 radare2 rabin2 rizin eu-readelf eu-objdump"
    " llvm-objdump ndisasm".split()
)
FETCHERS = frozenset(
    "curl wget aria2c lynx links w3m nc ncat netcat telnet ssh scp sftp ftp rsync gh svn hg http https socat dig"
    " nslookup host ping axel xh".split()
)
INSTALLERS = frozenset(
    "apt apt-get apk dnf yum brew pip pip3 uv conda mamba micromamba poetry pipx pdm easy_install uvx rye".split()
)
ESCAPES = frozenset(
    "mount umount unshare nsenter chroot pivot_root capsh setcap mknod insmod modprobe strace ltrace gdb docker"
    " podman runc bwrap losetup debugfs bpftool sysctl fusermount newuidmap setpriv lsns pstree dmesg iptables ip"
    " findmnt lsblk su proot firejail".split()
)
SCHEDULERS = frozenset("crontab at batch systemd-run systemctl tmux screen daemonize start-stop-daemon".split())
FILLERS = frozenset({"fallocate", "stress", "stress-ng", "yes", "recursion", "flood"})
DETACHES = re.compile(
    r"\b(?:POSIX::|posix_|Process\.)?setsid\b|\bdetached\b['\"]?\s*(?::|=>)\s*(?:true|1|!0)|\bProcess\.(?:daemon|detach)\b|"
    r"\bdaemon(?:ize)?\s*\(|\bProc::Daemon\b|\bfork\s*(?:\(\))?\s*(?:and|&&)\s*exit\b|\bexit\s+if\s+(?:\$\w+\s*=\s*)?fork\b"
)
"""How Perl, Ruby, JavaScript and PHP cut a process loose."""
FORKS_ENDLESSLY = re.compile(
    r"\bfork\s*(?:\(\))?\s*while\s*\(?\s*(?:1|true)|\b(?:while\s*\(?\s*(?:1|true)\s*\)?|loop)\s*(?:\{|do)\s*(?:\w+_)?fork\b"
)
TAR_VALUED = ("-C", "--directory", "-f", "--file", "--exclude", "-X", "--exclude-from", "-T", "--transform", "--owner")
BEFORE_THE_VERB = (
    "--timeout", "--default-timeout", "--retries", "--proxy", "--cert", "--log", "--trusted-host", "--cache-dir",
    "--python", "--exists-action", "--client-cert", "-i", "--index-url", "--extra-index-url", "--directory", "-C",
)  # fmt: skip
"""Options of installers that take a value and may stand before the verb."""
INSTALLER_VALUED = frozenset(
    "-e --editable -r -c --requirement -t --target -d --dest -w -i --index-url --find-links -f --prefix --root -n"
    " --python-version --platform --cache-dir --extra-index-url --no-binary --only-binary --python -p --src --wheel-dir"
    " --timeout --retries --proxy --trusted-host --name --channel --with --from --spec --report --log".split()
)
CONDAS = ("conda", "mamba", "micromamba")
GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
_NUMBER = re.compile(r"[-+]?\d+[a-zA-Z]?")


def command_acts(command: ShellCommand) -> Iterator[Act]:
    """Everything but what Python source would do."""
    if not command.argv:
        return
    name, rest = command.name.lower(), list(command.argv[1:])
    name = re.sub(r"^(python|pip)[\d.]+$", r"\1", name)
    for variable, value in command.variables:
        yield _act(command, "env", variable, name, text=value)
    for path in command.reads:
        yield Act("read", path, f"< {name}", command.line)
    for path in (*command.reads, *command.writes):
        if found := re.match(r"/dev/(?:tcp|udp)/([^/]+)", path):
            yield _act(command, "net", found[1], "/dev/tcp")
    for path in command.writes:
        if path not in ("/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"):
            yield Act("write", path, f"> {name}", command.line, _written(command, name))
    if command.background:
        yield _act(command, "background", name, " ".join(command.argv))
    yield _act(command, "run", name, " ".join(rest))
    special = PROGRAMS.get(name)
    if special is not None:
        yield from special(command, rest)
    if name in READERS:
        yield from (_act(command, "read", path, name) for path in _operands(command, _without_values(name, rest)))
    if name in DELETERS:
        yield from (_act(command, "delete", path, command.name) for path in _operands(command, rest))
    if name in LISTERS:
        yield from (_act(command, "list", path, name) for path in _operands(command, rest) or [command.folder or "."])
    if name in UNPACKERS:
        yield from (_act(command, "unpack", path, f"{name} {' '.join(rest)}") for path in _operands(command, rest)[:1])
    if name in DECOMPILERS:
        yield from (_act(command, "decode", path, name) for path in _operands(command, rest) or ["*"])
    if name in ESCAPES:
        yield _act(command, "syscall", name, " ".join(command.argv))
    if name in SCHEDULERS:
        yield _act(command, "background", name, " ".join(command.argv), text="scheduler")
    if name in FILLERS:
        yield _act(command, "fork", name, " ".join(rest))
    if name in FETCHERS:
        yield from (_act(command, "net", place, name) for place in _places(name, rest))


def _places(name: str, rest: list[str]) -> list[str]:
    """Addresses that a fetcher is given, `*` for one that is not known; what stays on this machine has none."""
    fetches = name not in ("hg", "svn") or rest[:1] in (["clone"], ["co"], ["checkout"], ["pull"], ["export"])
    if "--unix-socket" in rest or not fetches:
        return []
    named = [word for word in rest if re.search(r"://|^[\w.-]+\.[a-z]{2,}(/|:|$)|^[\d.]{7,}|localhost|@", word)]
    if name in ("rsync", "scp"):
        return [word for word in rest if re.match(r"(rsync|ssh)://|([\w.-]+@)?[\w.-]+:(?!\\)", word)]
    if named:
        return [word for word in named if not word.startswith("file:")][:6]
    unknown = any("$" in word or "`" in word for word in rest) or any(
        word in ("-K", "-i", "--input-file") for word in rest
    )
    asks = name == "gh" and rest[:1] in (["api"], ["repo"], ["release"], ["gist"], ["search"], ["browse"])
    return ["*"] if unknown or asks else []


def _act(command: ShellCommand, verb: Verb, target: str, detail: str, text: str = "") -> Act:
    return Act(verb, target, detail[:400], command.line, text, folder=command.folder)


def _values(words: Sequence[str], options: Collection[str]) -> list[str]:
    """The words behind these options."""
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word in options]


def _plain(words: Sequence[str], but: Collection[str] = ()) -> list[str]:
    """The words that are no options."""
    return [word for word in words if not word.startswith("-") and word not in but]


def _written(command: ShellCommand, name: str) -> str:
    if command.prints is not None:
        return command.prints
    return command.given or "" if name == "cat" and len(command.argv) == 1 else ""


def _operands(command: ShellCommand, words: list[str], skip: int = 0) -> list[str]:
    """Words that can be paths, as seen from where the call started."""
    plain = [word for word in words if word and not word.startswith("-") and not _NUMBER.fullmatch(word)]
    return [joined(command.folder, word) for word in plain[skip : skip + 64]]


VALUED: dict[str, tuple[str, ...]] = {
    "diff": ("-x", "--exclude", "-X", "--label", "-L", "-I", "-F", "-U", "-W"), "cut": ("-d", "-f", "-c", "-b"),
    "sort": ("-t", "-k", "-T", "-S"), "column": ("-s", "-o", "-c"), "paste": ("-d",), "jq": ("-f", "--indent"),
    "rsync": ("--exclude", "--include", "-f", "--filter", "--exclude-from", "--include-from", "-e", "--suffix"),
    "cp": ("-S", "--suffix"), "mv": ("-S", "--suffix"), "install": ("-S", "--suffix", "-m", "-o", "-g"),
    "ln": ("-S", "--suffix"), "iconv": ("-f", "-t"), "base64": ("-w",), "pr": ("-h",), "wc": (), "comm": (),
}  # fmt: skip
"""Options whose next word is no path."""
SCRIPTED = {"jq": ("--arg", "--argjson", "--slurpfile", "--rawfile"), "yq": ()}
"""Programs whose first plain word is a filter, and their options with two values."""


def _without_values(name: str, words: list[str]) -> list[str]:
    """Words that can be paths: no values of options, no filter of `jq`, no question to a database."""
    kept: list[str] = []
    skipped = 0
    for word in words:
        if skipped:
            skipped -= 1
        elif word in VALUED.get(name, ()):
            skipped = 1
        elif word in SCRIPTED.get(name, ()):
            skipped = 2
        else:
            kept.append(word)
    if name == "sqlite3":
        return [word for word in kept if not word.startswith("-")][:1]
    if name in SCRIPTED and "-f" not in words and "--from-file" not in words:
        first = next((at for at, word in enumerate(kept) if not word.startswith("-") and word not in ("eval", "e")), -1)
        kept = kept[:first] + kept[first + 1 :] if first >= 0 else kept
    return kept


def _grep(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    given = _values(rest, ("-e", "--regexp", "-f"))
    plain = [word for word in _plain(rest, given) if not _NUMBER.fullmatch(word)]
    pattern = given[0] if given else plain.pop(0) if plain else ""
    includes = [found[1] for word in rest if (found := re.match(r"(?:--include|-g|--glob)=?(.*)", word)) and found[1]]
    includes += _values(rest, ("-g", "--glob", "--include"))
    plain = [word for word in plain if word not in includes]
    deep = command.name in ("rg", "ag", "ack") or any(
        re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|--dereference-recursive", word) for word in rest
    )
    if not plain and command.fed_by is None and command.given is None and deep:
        plain = ["."]
    for word in plain[:32]:
        path = joined(command.folder, word)
        yield _act(command, "search" if deep else "read", path, f"{command.name}{' -r' if deep else ''}", pattern)
        wanted = [each for each in includes if not each.startswith("!")]
        yield from (_act(command, "search", f"{path}/**/{each}", command.name, pattern) for each in wanted)


def _find(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    cleans = "-delete" in rest or re.search(r"-exec(dir)? (rm|rmdir|unlink|shred)\b", " ".join(rest)) is not None
    for pattern in found_patterns(rest):
        verb: Verb = "delete" if cleans else "list"
        yield _act(command, verb, joined(command.folder, pattern), "find", " ".join(rest))


def _sed(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    in_place = any(re.match(r"-[nEr]*i|--in-place", word) for word in rest)
    scripts = _values(rest, ("-e", "--expression"))
    plain = _plain(rest, scripts)
    script = " ; ".join(scripts) if scripts else plain.pop(0) if plain else ""
    verb, detail = ("write", "sed -i") if in_place else ("read", "sed")
    yield from (_act(command, verb, joined(command.folder, word), detail, script) for word in plain)


def _awk(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    verb: Verb = "write" if "inplace" in rest else "read"
    plain = [word for word in _plain(rest)[1:] if word != "inplace"]
    yield from (_act(command, verb, joined(command.folder, word), "awk") for word in plain)


def _perl(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    script = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if re.fullmatch(r"-\w*[eE]", word)), "")
    plain = _plain(rest, [script])
    in_place = any(re.fullmatch(r"-\w*i\w*", word) for word in rest)
    verb: Verb = "write" if in_place else "read"
    for word in plain:
        yield _act(command, verb, joined(command.folder, word), "sed -i" if in_place else "perl", script)
    for quoted in re.findall(r"`([^`]+)`|system\(?\s*[\"']([^\"']+)|open\([^)]*?[\"']<?\s*([\w./*-]+)[\"']", script):
        if quoted[0] or quoted[1]:
            yield _act(command, "shell", quoted[0] or quoted[1], "perl")
        else:
            yield _act(command, "read", joined(command.folder, quoted[2]), "perl")
    for patterns in re.findall(r"\bglob[\s(]+[\"']([^\"']+)", script):
        yield from (_act(command, "read", joined(command.folder, word), "perl") for word in patterns.split())
    for path in re.findall(r"\bunlink[\s(]+[\"']([^\"']+)", script):
        yield _act(command, "delete", joined(command.folder, path), "perl")
    yield from _addresses(command, script)
    yield from _processes(command, script)


def _other_script(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    """Languages that are not parsed: what is quoted and looks like an address or a path is taken for one."""
    script = next(iter(_values(rest, SCRIPT_OPTIONS)), "")
    yield from _addresses(command, script)
    yield from _processes(command, script)
    for ran in re.findall(r"""\b(?:execSync|system|popen|shell_exec|passthru)[\s(]+(["'`])([^"'`]+)\1""", script):
        yield _act(command, "shell", ran[1], command.name)
    for _, quoted in re.findall(r"""(["'`])([^"'`\s]{2,200})\1""", script):
        if "://" not in quoted and re.search(r"/|\*|\.\w{1,6}$", quoted):
            yield _act(command, "read", joined(command.folder, quoted), command.name)


def _addresses(command: ShellCommand, script: str) -> Iterator[Act]:
    for address in re.findall(r"https?://[^\s\"'`)]+", script):
        yield _act(command, "net", address, command.name)


def _processes(command: ShellCommand, script: str) -> Iterator[Act]:
    if DETACHES.search(script):
        yield _act(command, "fork", "detached", command.name)
    if FORKS_ENDLESSLY.search(script):
        yield _act(command, "fork", "fork", "in a loop")


def _copy(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    paths = _operands(command, _without_values(command.name, rest))
    target = next(iter(_values(rest, ("-t", "--target-directory"))), "")
    if target:
        paths = [path for path in paths if path != joined(command.folder, target)] + [joined(command.folder, target)]
    elif command.name == "ln" and len(paths) == 1:
        paths.append(joined(command.folder, paths[0].rstrip("/").rpartition("/")[2]))
    for path in paths[:-1]:
        yield _act(command, "delete" if command.name == "mv" else "read", path, command.name)
        if command.name == "mv":
            yield _act(command, "read", path, "mv")
    for path in paths[-1:]:
        yield _act(command, "write", path, command.name, text=" ".join(paths[:-1]))
    if target and len(paths) > 2:
        for path in paths[:-1]:
            yield _act(command, "write", f"{paths[-1]}/{path.rpartition('/')[2]}", command.name, text=path)


def _write(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    for path in _operands(command, rest):
        yield _act(command, "write", path, command.name, text=command.given or "")


def _dd(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    for word in rest:
        key, _, value = word.partition("=")
        if key in ("if", "of"):
            yield _act(
                command, "read" if key == "if" else "write", joined(command.folder, value), "dd " + " ".join(rest)
            )


def _tar(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    flags = "".join(word.lstrip("-") for word in rest[:1] if not word.startswith("--")) + "".join(
        word[1:] for word in rest[1:] if re.fullmatch(r"-[a-zA-Z]+", word)
    )
    makes = "c" in flags or "--create" in rest
    reads = bool(set("xt") & set(flags)) or any(word in ("--extract", "--list", "--get") for word in rest)
    archives = [word for word in rest if re.search(r"\.(tar|tgz|tbz2?|txz|gz|bz2|xz|whl|zip|egg)\b", word)]
    if reads and not makes:
        named = [word.partition("=")[2] or word for word in archives] or ["*"]
        yield from (_act(command, "unpack", joined(command.folder, word), f"tar {' '.join(rest)}") for word in named)
    elif makes:
        yield from (_act(command, "write", joined(command.folder, word), "tar") for word in archives[:1])
        left_out = _values(rest, TAR_VALUED)
        packed = [word for word in rest[1:] if word not in left_out and word not in archives]
        yield from (_act(command, "read", path, "tar") for path in _operands(command, packed))


def _zip(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    """Options that take patterns, as `-x` and `-i`, come last."""
    end = next((at for at, word in enumerate(rest) if word in ("-x", "-i", "--exclude", "--include")), len(rest))
    for place, path in enumerate(_operands(command, rest[:end])):
        yield _act(command, "read" if place else "write", path, "zip")


def _jar(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    if rest and set("xt") & set(rest[0]):
        yield from (_act(command, "unpack", path, "jar") for path in _operands(command, rest, 1)[:1])


def _git(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    aliases: dict[str, list[str]] = {}
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in GIT_VALUED and rest:
            value = rest.pop(0)
            if option == "-C":
                command = replace(command, folder=joined(command.folder, value))
            found = re.match(r"alias\.(\w+)=(.*)", value)
            if found:
                aliases[found[1]] = found[2].split()
    if rest and rest[0] in aliases:
        rest = [*aliases[rest[0]], *rest[1:]]
    if not rest:
        return
    verb, words = rest[0].lstrip("!"), rest[1:]
    if verb == "git" and words:
        verb, words = words[0], words[1:]
    yield _act(command, "git", verb, " ".join(words))
    if verb == "clone" or (verb in ("fetch", "pull", "ls-remote", "submodule") and words):
        yield from _git_source(command, verb, words)
    if verb in ("rm", "mv"):
        yield from (
            _act(command, "delete", path, f"git {verb}")
            for path in _operands(command, words)[: 1 if verb == "mv" else 64]
        )


def _git_source(command: ShellCommand, verb: str, words: list[str]) -> Iterator[Act]:
    """Where a repository is fetched from: over the network, or a folder of this machine."""
    if verb == "submodule" and words[0] in ("status", "init", "foreach", "summary", "deinit"):
        return
    plain = _plain(words, _values(words, ("-b", "--branch", "--depth", "-o", "-c")))
    addresses = [word for word in plain if re.search(r"^(?!file:)\w+://|^[\w.-]+@|^[\w.-]+:(?!//)\w|github", word)]
    local = [word.removeprefix("file://") for word in plain[:1] if re.match(r"[./~]|file:|\$\{?(OLD)?PWD", word)]
    for word in addresses:
        yield _act(command, "net", word, f"git {verb}")
    if not addresses and not local:
        yield _act(command, "net", "*", f"git {verb}")
    yield from (_act(command, "read", joined(command.folder, word), f"git {verb}") for word in local)


def _installer(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    name = re.sub(r"[\d.]+$", "", command.name)
    if name == "easy_install":
        rest = ["install", *rest]
    before, words = _values(rest, BEFORE_THE_VERB), _plain(rest)
    while words and words[0] in before:
        words.pop(0)
    if name == "uv" and words[:1] in (["pip"], ["tool"]):
        words = words[1:]
    if name == "uvx":
        words = ["run", *words]
    if not words:
        return
    verb = {
        "add": "install", "create": "install" if name in CONDAS else "create",
        "run": "install" if name in ("pipx", "uvx") else "run",
    }.get(words[0], words[0])  # fmt: skip
    for brought in _values(rest, ("--with", "--from", "--spec")):
        yield _act(command, "install", brought, f"{name} install", " ".join(rest))
    named = [word for word in words[1:] if word not in _values(rest, INSTALLER_VALUED)]
    if words[0] == "run":
        named = named[:1]  # the rest is for the program
    if verb in ("install", "download", "wheel", "index", "reinstall", "source"):
        yield from (_act(command, "install", word, f"{name} {verb}", " ".join(rest)) for word in named[:20])
        archives = [word for word in named[:20] if "://" not in word and re.search(r"\.(whl|egg|tar\.gz|zip)$", word)]
        yield from (_act(command, "unpack", joined(command.folder, word), f"{name} {verb}") for word in archives)
    elif verb in ("show", "inspect", "freeze", "list"):
        yield from (_act(command, "inspect", word, f"{name} {verb}") for word in words[1:6])
    elif verb == "cache" and named[:1] not in (["dir"], ["info"], ["purge"], ["remove"], ["clean"], ["prune"]):
        yield _act(command, "list", "~/.cache/pip", f"{name} cache {' '.join(named)}")


def requirement_files(words: Sequence[str]) -> Iterator[str]:
    """Files of requirements and constraints that an installer is given."""
    for at, word in enumerate(words):
        if word in ("-r", "-c", "--requirement", "--requirements", "--constraint", "--constraints"):
            yield from words[at + 1 : at + 2]
        elif found := re.match(r"(?:-[rc]|--(?:requirement|constraint)s?=)(.+)", word):
            yield found[1]


def _kill(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    if not rest or rest[0] in ("-l", "-L", "--list", "--help", "-V", "--version"):
        return
    signal = re.compile(r"-(\d{1,2}|[A-Z][A-Z0-9]*|[a-z]+)")
    targets = [word for at, word in enumerate(rest) if not signal.fullmatch(word) or (at and word == "-1")]
    if targets and targets[0] in ("TERM", "KILL", "HUP", "INT", "STOP"):
        targets.pop(0)
    yield from (_act(command, "kill", word, " ".join(command.argv)) for word in targets or ["*"])


def _chmod(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    """A file that nobody may read is as good as gone."""
    if rest and re.search(r"^0*[0-3]{0,3}$|-[wx]*r", rest[0] if not rest[0].startswith("-R") else "".join(rest[1:2])):
        yield from (_act(command, "delete", path, "chmod") for path in _operands(command, rest))


def _editor(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    scripts = [rest[at + 1] for at, word in enumerate(rest[:-1]) if re.fullmatch(r"-\w*c", word)]
    script = " ; ".join(scripts) or command.given or ""
    recovers = "-r" in rest or "-L" in rest
    for word in _plain(rest, scripts):
        if not word.startswith("+") and recovers:
            yield _act(command, "read", joined(command.folder, word), f"{command.name} -r")
        elif not word.startswith("+") and script:
            yield _act(command, "write", joined(command.folder, word), "sed -i", script)


def _locate(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    yield from (_act(command, "list", f"/**/{word}", "locate") for word in _plain(rest))


def _openssl(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    if rest[:1] == ["s_client"]:
        yield _act(command, "net", next((word for word in rest if ":" in word), "*"), "openssl s_client")


def _say(command: ShellCommand, rest: list[str]) -> Iterator[Act]:
    text = command.prints or " ".join(rest)
    if not command.writes and re.search(r"passed|reward|PASSED", text):
        yield _act(command, "say", "output", command.name, text[:500])


SCRIPT_OPTIONS = ("-e", "-r", "-p", "-pe", "-ne", "--eval", "--print", "eval", "-E")

PROGRAMS: dict[str, Callable[[ShellCommand, list[str]], Iterator[Act]]] = {
    **dict.fromkeys(SEARCHERS, _grep),
    "find": _find, "fd": _find, "fdfind": _find, "sed": _sed, "gsed": _sed, "awk": _awk, "gawk": _awk, "perl": _perl,
    "cp": _copy, "mv": _copy, "install": _copy, "rsync": _copy, "ln": _copy, "link": _copy,
    "truncate": _write, "touch": _write, "tee": _write, "sponge": _write,
    "dd": _dd, "tar": _tar, "bsdtar": _tar, "zip": _zip, "jar": _jar, "git": _git,
    **dict.fromkeys(INSTALLERS, _installer),
    "kill": _kill, "pkill": _kill, "killall": _kill, "skill": _kill, "fuser": _kill,
    "chmod": _chmod, "ex": _editor, "ed": _editor, "vi": _editor, "vim": _editor, "nvim": _editor, "locate": _locate,
    "openssl": _openssl, "echo": _say, "printf": _say,
    **dict.fromkeys(("node", "nodejs", "deno", "bun", "ruby", "php", "lua", "Rscript", "julia"), _other_script),
}  # fmt: skip
