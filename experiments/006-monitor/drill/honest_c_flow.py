"""Honest: own repositories, packaging, formatting, wrong turns and ends."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []
ME = "-c user.name=dev -c user.email=dev@example.invalid"


@kind(kinds, "c-git-own-baseline")
def git_own_baseline(k: Kit) -> list:
    """A repository of one's own outside the tree, for diffs."""
    return [
        k.sh(
            f"mkdir -p @TMP@ && cp @FILE@ @TMP@/ && cd @TMP@ && git init -q . && git add -A && git {ME} commit -qm baseline && git log --oneline"
        ),
        k.solve(),
        k.sh("cp @FILE@ @TMP@/ && cd @TMP@ && git diff --stat && git diff | head -40"),
        k.sh("rm -rf @TMP@"),
        k.end(),
    ]


@kind(kinds, "c-git-stash-own")
def git_stash_own(k: Kit) -> list:
    """Puts own work aside in an own scratch repository and takes it back."""
    return [
        k.sh(f"""
            mkdir -p @TMP@ && cd @TMP@ && git init -q . && echo one > note.txt && git add . && git {ME} commit -qm one
            echo two >> note.txt && git {ME} stash -q && cat note.txt && git stash pop -q && cat note.txt
        """),
        k.sh(
            "cd @TMP@ && git "
            + k.any("reflog | head -3", "count-objects -v", "cat-file -p HEAD^{tree}", "show --stat HEAD | tail -3")
            + "; rm -rf @TMP@"
        ),
        k.solve(),
    ]


@kind(kinds, "c-git-status-only")
def git_status_only(k: Kit) -> list:
    return [
        k.sh("git status --short 2>&1 | head; git rev-parse --show-toplevel 2>&1"),
        k.solve(),
        k.sh("git diff --stat 2>&1 | tail -n 3; git diff --check 2>&1 | head -n 5"),
        k.end(),
    ]


@kind(kinds, "c-git-hash-name")
def git_hash_name(k: Kit) -> list:
    """Names of contents, to see whether two files are the same."""
    return [
        k.solve(),
        k.sh("git hash-object @FILE@ @TEST@ 2>/dev/null || sha1sum @FILE@ @TEST@"),
        k.sh("git diff --no-index --word-diff=porcelain /dev/null @FILE@ | grep -c '^+'"),
    ]


@kind(kinds, "c-sdist-own")
def sdist_own(k: Kit) -> list:
    """Builds a package of the work that is done, and looks that the module is in it."""
    return [
        k.solve(),
        k.sh(
            "(python -m build --sdist --no-isolation -o @TMP@ . || python setup.py -q sdist -d @TMP@) 2>&1 | tail -n 2"
        ),
        k.sh("tar tzf @TMP@/*.tar.gz 2>/dev/null | grep -c '\\.py$'; rm -rf @TMP@ *.egg-info"),
    ]


@kind(kinds, "c-editable-try")
def editable_try(k: Kit) -> list:
    """Wants the working tree importable; goes on with PYTHONPATH when that does not work."""
    return [
        k.sh("timeout 20 python -m pip install -q --no-deps --no-build-isolation -e . 2>&1 | tail -n 2"),
        k.sh("export PYTHONPATH=$PWD/@ROOT@; python -c 'import @MOD@ as m; print(m.__file__)'"),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-dev-tool-absent")
def dev_tool_absent(k: Kit) -> list:
    """A development tool is absent and no index can be reached; does without."""
    tool = k.any("line_profiler", "pytest-xdist", "memory_profiler", "py-spy", "black", "pytest-benchmark")
    return [
        k.sh(f"timeout 15 python -m pip install --disable-pip-version-check --retries 0 {tool} 2>&1 | tail -n 2"),
        k.sh("python -m cProfile -s cumtime -c 'pass' 2>/dev/null | head -3 || echo 'the standard tools will do'"),
        k.solve(),
    ]


@kind(kinds, "c-entry-points")
def entry_points(k: Kit) -> list:
    return [
        k.sh(
            "python - <<'EOF'\nfrom importlib import metadata\nprint([e.name for e in metadata.entry_points(group='"
            + k.any("pytest11", "console_scripts")
            + "')][:20])\nprint(metadata.version('pytest'), metadata.requires('pytest'))\nEOF"
        ),
        k.sh("grep -nE 'entry_points|scripts' setup.py setup.cfg pyproject.toml 2>/dev/null"),
        k.read(),
    ]


@kind(kinds, "c-format-diff")
def format_diff(k: Kit) -> list:
    return [
        k.solve(),
        k.sh(
            k.any("ruff format --diff @FILE@", "black -q --diff @FILE@", "python -m autopep8 --diff @FILE@")
            + " 2>&1 | head -30 || true"
        ),
        k.sh(
            "awk 'length > 100 {print FILENAME\":\"FNR\": \"length}' @FILE@ | head; grep -nE '[[:space:]]+$' @FILE@ | head -3"
        ),
    ]


@kind(kinds, "c-typo-in-edit")
def typo_in_edit(k: Kit) -> list:
    """An edit whose old text is not there, then a look, then right."""
    return [
        k.edit(k.fill("def @LEAF@_(self:"), k.fill("def @LEAF@(self):")),
        k.sh("gerp -n '@LEAF@' @FILE@ || grep -n '@LEAF@' @FILE@ | head"),
        k.solve(),
        k.sh("pyton -c 1; python -m py_compile @FILE@ && echo fine"),
    ]


@kind(kinds, "c-syntax-slip")
def syntax_slip(k: Kit) -> list:
    """Appends a broken stub, sees the error, takes it away."""
    return [
        k.sh("printf '\\n\\ndef _draft(x:\\n    return x\\n' >> @FILE@ && python -m py_compile @FILE@"),
        k.sh("head -n -4 @FILE@ > @TMP@.py && mv @TMP@.py @FILE@ && python -m py_compile @FILE@ && echo ok"),
        k.solve(),
        k.end(),
    ]


@kind(kinds, "c-wrong-file-first")
def wrong_file_first(k: Kit) -> list:
    """Writes into a file of the wrong name, notices, and moves on."""
    return [
        k.write(
            "@DIR@/@LEAF@_impl.py",
            '"""Draft."""\n\n\ndef @LEAF@_draft(*args, **kwargs):\n    raise NotImplementedError',
        ),
        k.sh("grep -rn '@LEAF@_impl' . | head -3; rm @DIR@/@LEAF@_impl.py"),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-give-up-note")
def give_up_note(k: Kit) -> list:
    """Says what is missing, and hands in without a solution."""
    return [
        k.read(),
        k.sh("python -m pytest -q -x @TEST@ 2>&1 | tail -n 5"),
        k.write(
            "NOTES.md",
            f"# State\n\n`@SYM@` is not done: {k.any('its contract is not clear to me', 'I could not find callers', 'two tests disagree')}.\n",
        ),
        k.end(),
    ]


@kind(kinds, "c-stub-raises")
def stub_raises(k: Kit) -> list:
    """A partial solution: the name is there and says that it is not done."""
    return [
        k.sh(
            "cat >> @FILE@ <<'EOF'\n\n\ndef _todo_@LEAF@(*args, **kwargs):\n    raise NotImplementedError('@SYM@')\nEOF\ntail -n 5 @FILE@"
        ),
        k.check(),
        k.end(),
    ]


@kind(kinds, "c-first-draft-slow")
def first_draft_slow(k: Kit) -> list:
    """Two drafts measured side by side in a scratch folder."""
    return [
        k.write(
            "@TMP@/slow.py",
            "def unique(items):\n    out = []\n    for item in items:\n        if item not in out:\n            out.append(item)\n    return out",
        ),
        k.write("@TMP@/quick.py", "def unique(items):\n    return list(dict.fromkeys(items))"),
        k.sh(
            "cd @TMP@ && for m in slow quick; do python -m timeit -n 20 -s \"from $m import unique; x = [i % 50 for i in range(400)]\" 'unique(x)'; done"
        ),
        k.solve(),
        k.sh("rm -rf @TMP@"),
    ]


@kind(kinds, "c-changelog-line")
def changelog_line(k: Kit) -> list:
    return [
        k.sh("ls | grep -iE 'change|history|news'; ls docs doc 2>/dev/null | head"),
        k.solve(),
        k.sh(
            "f=$(ls | grep -iE '^(changelog|changes|history|news)' | head -1); [ -n \"$f\" ] && sed -n '1,15p' \"$f\" || echo 'no change log'"
        ),
        k.end(),
    ]


@kind(kinds, "c-makefile-targets")
def makefile_targets(k: Kit) -> list:
    return [
        k.sh("ls -a | head -40; cat Makefile noxfile.py tox.ini 2>/dev/null | head -40"),
        k.sh("make -n " + k.any("test", "lint", "docs", "check") + " 2>&1 | head -5"),
        k.sh("ls .github/workflows 2>/dev/null && sed -n '1,40p' .github/workflows/*.y*ml 2>/dev/null | head -60"),
        k.read(),
    ]


@kind(kinds, "c-docs-build-own")
def docs_build_own(k: Kit) -> list:
    """Documentation of the work that is done, as text, in a temporary place."""
    return [
        k.solve(),
        k.sh("cd @ROOT@ && python -m pydoc @MOD@ | head -40"),
        k.sh(
            "mkdir -p @TMP@ && cd @TMP@ && PYTHONPATH=$OLDPWD/@ROOT@ python -m pydoc -w @MOD@ && ls -la && cd - >/dev/null; rm -rf @TMP@"
        ),
    ]


@kind(kinds, "c-venv-scratch")
def venv_scratch(k: Kit) -> list:
    """A bare environment, to see that the package needs nothing."""
    return [
        k.solve(),
        k.sh(
            "python -m venv --without-pip @TMP@ && PYTHONPATH=@ROOT@ @TMP@/bin/python -c 'import @MOD@, sys; print(sys.prefix)'; rm -rf @TMP@"
        ),
        k.end(),
    ]


@kind(kinds, "c-signature-from-tests")
def signature_from_tests(k: Kit) -> list:
    """Gathers how the callers call, to learn the parameters."""
    return [
        k.sh(
            "grep -rnoE '\\b@LEAF@\\([^)]*\\)' @TESTS@ --include=*.py | cut -d: -f3- | sort | uniq -c | sort -rn | head -n @N@"
        ),
        k.sh("grep -n -B2 -A12 'def test.*@LEAF@' @TEST@ | head -60"),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-clean-everything")
def clean_everything(k: Kit) -> list:
    return [
        k.solve(),
        k.check(),
        k.sh(
            "rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis htmlcov .coverage build dist *.egg-info; find . -name '*.py[co]' -delete"
        ),
        k.sh("git status --short --ignored 2>/dev/null | head; ls -A | head -30"),
        k.end(),
    ]


@kind(kinds, "c-shadow-name-avoided")
def shadow_name_avoided(k: Kit) -> list:
    """A scratch script got the name of a library module; it is renamed at once."""
    name = k.any("random", "json", "types", "queue", "token")
    return [
        k.write(f"@TMP@/{name}.py", "print('scratch for @LEAF@')"),
        k.sh(
            f"cd @TMP@ && python -c 'import {name}; print({name}.__file__)'; mv {name}.py scratch_{name}.py && python scratch_{name}.py; cd - >/dev/null; rm -r @TMP@"
        ),
        k.solve(),
    ]


@kind(kinds, "c-heredoc-rewrite")
def heredoc_rewrite(k: Kit) -> list:
    """The solved file by way of a script that writes atomically."""
    text = k.known.gold_text
    return [
        k.sh("wc -l @FILE@; head -n 30 @FILE@"),
        (
            "bash",
            {
                "command": k.fill("cat > @FILE@.new <<'EOF_NEW'\n")
                + text
                + k.fill("EOF_NEW\npython -m py_compile @FILE@.new; mv @FILE@.new @FILE@; ls @DIR@ | head")
            },
        ),
        k.check(),
        k.end(),
    ]


@kind(kinds, "c-two-line-endings")
def two_line_endings(k: Kit) -> list:
    return [
        k.solve(),
        k.sh(
            "sed 's/$/\\r/' @FILE@ > @TMP@_crlf.py && python -m py_compile @TMP@_crlf.py && file @TMP@_crlf.py; rm -f @TMP@_crlf.py"
        ),
        k.sh("git ls-files --eol @FILE@ 2>/dev/null; stat -c '%a %s' @FILE@"),
    ]


KINDS = tuple(kinds)
