"""The shell layer: one flat list of commands, whatever the spelling."""

import time

import pytest

from composer_replication.monitor.shell.script import MAX_STATEMENTS, parse_shell


def argvs(text):
    return [list(command.argv) for command in parse_shell(text).commands]


def last(text):
    return argvs(text)[-1]


SPELLINGS = [
    "git log -p",
    "g''it lo\"g\" -p",
    "g\\it log -p",
    "X=git; Y=log; $X ${Y} -p",
    "export X=git; $X log -p",
    "A=gi; B=t; ${A}${B} log -p",
    "$'\\147\\x69t' log -p",
    "$(echo git) log -p",
    "`echo git` log -p",
    "$(printf '\\147\\151\\164') log -p",
    "$(echo Z2l0 | base64 -d) log -p",
    "$(rev <<< tig) log -p",
    "$(echo tvg | tr a-z n-za-m) log -p",
    "$(echo 676974 | xxd -r -p) log -p",
    "$(printf '%s%s' gi t) log -p",
    "$(echo xgit | cut -c2-) log -p",
    "{git,log,-p}",
    'c=(git log -p); "${c[@]}"',
    "x=gitlog; ${x:0:3} ${x:3} -p",
    "x=gXt; ${x/X/i} log -p",
    "x=GIT; ${x,,} log -p",
    "git${IFS}log${IFS}-p",
    "eval 'git log' -p",
    'eval "$(echo Z2l0IGxvZyAtcA== | base64 -d)"',
    "bash -c 'git log -p'",
    "sh -c \"bash -c 'git log -p'\"",
    "echo git log -p | sh",
    "bash <<< 'git log -p'",
    "bash <<'E'\ngit log -p\nE",
    "cat > s.sh <<'E'\ngit log -p\nE\nbash s.sh",
    "echo 'git log' > s; echo 'x' >> s; source <(echo git log -p)",
    'f() { git "$@"; }; f log -p',
    "alias g=git\ng log -p",
    "env A=1 timeout -k 1 5 nice -n 3 git log -p",
    "sudo -u nobody nohup git log -p",
    "command git log -p",
    "echo log -p | xargs git",
    "echo log | xargs -I{} git {} -p",
    "for v in log; do git $v -p; done",
    "if true; then :; else git log -p; fi",
    "(cd x && git log -p)",
    "x=$(cat <<'E'\ngit log -p\nE\n); $x",
    "a=git b=log; set -e; $a $b -p",
    "P=git; R=P; ${!R} log -p",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_spelling_is_the_same_command(text):
    assert ["git", "log", "-p"] in argvs(text)


def test_what_cannot_be_resolved_stays_as_text():
    (command,) = parse_shell("$UNHEARD_OF log").commands
    assert command.argv == ("$UNHEARD_OF", "log")


def test_quotes_protect():
    assert argvs("echo '$X' \"a  b\" 'x;y' \\$Z") == [["echo", "$X", "a  b", "x;y", "$Z"]]
    assert argvs("X='a b'; cat $X; cat \"$X\"") == [["cat", "a", "b"], ["cat", "a b"]]


def test_redirections_and_here_documents():
    script = parse_shell("sort < in.txt > out.txt 2>/dev/null; cat <<E >> log\nhi $HOME\nE")
    assert script.commands[0].reads == ("in.txt",)
    assert script.commands[0].writes == ("out.txt", "/dev/null")
    assert script.commands[1].given == "hi ~\n"
    assert script.files["log"] == "hi ~\n"


def test_a_quoted_here_document_is_not_expanded():
    assert parse_shell("python - <<'E'\nprint('$HOME')\nE").commands[0].given == "print('$HOME')\n"


def test_pipelines_know_their_feeder():
    commands = parse_shell("find . -name '*.pyc' | head -2 | xargs strings").commands
    assert [command.fed_by for command in commands[:3]] == [None, 0, 1]
    assert commands[3].argv == ("strings", "./**/*.pyc")


def test_a_loop_over_what_is_found_reads_what_is_found():
    assert last("find lib -name '*.so' | while read -r f; do nm $f; done") == ["nm", "lib/**/*.so"]
    assert last("while read f; do nm $f; done < <(find lib -name '*.so')") == ["nm", "lib/**/*.so"]
    assert last("for f in $(find lib -name '*.so'); do nm $f; done") == ["nm", "lib/**/*.so"]
    assert last("find lib -name '*.so' ! -path '*/x/*' -exec nm {} \\;") == ["nm", "lib/**/*.so"]


def test_folders_are_followed_and_subshells_return():
    commands = parse_shell("cd a && (cd ../b; ls) && cat c; pushd /tmp; ls").commands
    assert [(command.name, command.folder) for command in commands if command.name in ("ls", "cat")] == [
        ("ls", "b"),
        ("cat", "a"),
        ("ls", "/tmp"),
    ]


@pytest.mark.parametrize(
    "text",
    ["sleep 9 &", "(sleep 9; ls) &", "nohup sleep 9 &", "python - <<'E' &\nx\nE", "setsid sleep 9", "{ sleep 9; } &"],
)
def test_background(text):
    assert parse_shell(text).commands[0].background


def test_only_the_command_before_the_ampersand_is_in_the_background():
    assert [command.background for command in parse_shell("sleep 9 & ls; pwd").commands] == [True, False, False]


def test_variables_of_a_command():
    (command,) = parse_shell("A=1 B='x y' pytest -q").commands
    assert command.argv == ("pytest", "-q")
    assert dict(command.variables) == {"A": "1", "B": "x y"}
    assert not parse_shell("A=1; pytest").commands[0].variables


def test_exported_variables_keep_their_order():
    names = [f"V{number}" for number in range(20)]
    command = parse_shell("".join(f"export {name}=1; " for name in names) + "pytest").commands[-1]
    assert [name for name, _ in command.variables] == names


def test_a_function_that_calls_itself_ends():
    assert argvs(":(){ :|:& };:")[0][0] == "recursion"


def test_errors_are_tolerated():
    assert ["git", "log"] in argvs("git log; if then fi (( ")
    assert ["rm", "x"] in argvs("rm x\n)\n")


def test_a_very_long_script_is_cut():
    assert 900 < len(parse_shell("ls; " * 5_000).commands) <= MAX_STATEMENTS
    assert len(parse_shell("ls; " * 50).commands) == 50


def test_patterns_are_left_as_they_are():
    assert argvs("cat *.py[co] a/**/b?") == [["cat", "*.py[co]", "a/**/b?"]]
    assert argvs("cat {a,b}.{c,d}") == [["cat", "a.c", "a.d", "b.c", "b.d"]]


def test_a_long_sed_script_without_its_end_is_read_in_time():
    started = time.process_time()
    assert last("$(echo git | sed 's/" + "\\-" * 10_000 + "') log")[-1] == "log"
    assert time.process_time() - started < 2


def test_a_sed_script_knows_an_escaped_slash_from_the_end():
    assert last("$(echo git/x | sed 's/x/log/') -p") == ["git/log", "-p"]
    assert "git" not in last("$(echo tig | sed 's/tig/git\\/') -p")
