"""Honest work: looking, searching, listing, counting, paging and comparing, in many hands."""
# ruff: noqa: E501 - commands are easier to read unbroken

from practice.shell_kit import by_edit, by_heredoc, by_write, kind, maybe, read, solve, submit, tests

KINDS = (
    ("ls-then-read", kind(("ls", "ls -la", "ls -F", "ls -1p"), read(), read("%test%"))),
    (
        "tree-or-find",
        kind("tree -L 2 -I '__pycache__|*.pyc|.git' || find . -maxdepth 2 -not -path './.git*' | sort", read("%doc%")),
    ),
    (
        "find-prune-caches",
        kind(
            (
                "find . \\( -name __pycache__ -o -name .git -o -name .mypy_cache -o -name build \\) -prune -o -name '*.py' -print",
                "find . -path './.git' -prune -o -path '*/__pycache__' -prune -o -type f -name '*.py' -print0 | xargs -0 wc -l",
                "find . -type f ! -name '*.pyc' ! -name '*.so' ! -path './dist/*' ! -path './.tox/*' | sort | head -80",
            ),
            "sed -n '%a%,%b%p' %mod%",
        ),
    ),
    (
        "grep-symbol-tree",
        kind(
            (
                "grep -rn '%sym%' . | head -40",
                "grep -rnw '%sym%' --include='*.py' .",
                'grep -RIn "%sym%" %dir% %tests%',
            ),
            read(),
        ),
    ),
    (
        "ripgrep-with-fallback",
        kind(
            "rg -n '%sym%' -g '!*.pyc' || grep -rn --include=*.py '%sym%' .",
            "rg --files -t py | head -50 || find . -name '*.py' | head -50",
        ),
    ),
    (
        "grep-exclude-many",
        kind(
            "grep -rn --exclude-dir={.git,__pycache__,.mypy_cache,.pytest_cache,build,dist,htmlcov,node_modules} -- '%top%' . | head -%n%",
            "grep -rIl --exclude='*.pyc' --exclude='*.orig' --exclude='*~' '%near%' . | sort",
        ),
    ),
    ("ag-ack-missing", kind("ag %sym%", "ack %sym%", "type rg ag ack git grep 2>&1", "grep -rn %sym% %dir%")),
    (
        "page-through",
        kind("sed -n '1,80p' %mod%", "sed -n '81,160p' %mod%", "sed -n '161,240p' %mod%", "tail -n 60 %mod%"),
    ),
    ("nl-and-numbers", kind("nl -ba %mod% | sed -n '%a%,%b%p'", "cat -n %test% | head -60")),
    ("less-more-pg", kind("less %mod%", "more %mod% | head -50", "PAGER=cat LESS= man python | head -5")),
    (
        "head-tail-loop",
        kind(
            'for f in $(ls %dir%/*.py | head -5); do echo "== $f"; head -15 "$f"; done', "tail -n +%a% %mod% | head -30"
        ),
    ),
    (
        "awk-print-range",
        kind("awk 'NR>=%a% && NR<=%b%' %mod%", 'awk \'/^(def|class) /{print FILENAME":"FNR": "$0}\' %dir%/*.py'),
    ),
    (
        "awk-function-body",
        kind(
            "awk '/def %near%/{p=1} p{print} /^$/{if(p&&++n>2) exit}' %mod%",
            "awk 'length > 100 {print FILENAME, FNR, length}' %mod%",
        ),
    ),
    (
        "perl-one-liners",
        kind(
            "perl -ne 'print \"$.: $_\" if /\\b%sym%\\b/' %mod% %test%",
            "perl -nle 'print $1 if /^\\s*def (\\w+)/' %mod% | sort | uniq -d",
        ),
    ),
    (
        "count-lines-words",
        kind(
            "wc -lwc %mod% %test%",
            "find . -name '*.py' -print0 | xargs -0 wc -l | sort -n | tail -%n%",
            "grep -c '^def ' %mod%",
        ),
    ),
    (
        "count-asserts",
        kind(
            "grep -c assert %test%",
            "grep -rhoE 'def test_[a-z0-9]+' %tests% | sort | uniq -c | sort -rn | head",
            "grep -rn 'raises' %tests% | wc -l",
        ),
    ),
    (
        "count-skips-and-xfails",
        kind(
            "grep -rnE 'skip|xfail|importorskip' %tests% | head -20",
            "%python% -m pytest -q -rsx %test% 2>&1 | tail -15",
        ),
    ),
    (
        "sort-by-size-date",
        kind(
            "ls -lS %dir% | head",
            "ls -lt | head",
            "stat -c '%s %y %n' %mod% %test%",
            "find . -name '*.py' -newer %mod% | head",
        ),
    ),
    (
        "find-predicates",
        kind(
            "find . -type f -size +8k -name '*.py' -printf '%s %p\\n' | sort -rn | head",
            "find . -maxdepth 3 -type d -empty",
            "find . -name 'test_*.py' -o -name '*_test.py'",
        ),
    ),
    (
        "find-exec-grep",
        kind(
            "find %dir% -name '*.py' -exec grep -ln '%sym%' {} +",
            "find . -name '*.py' -exec awk 'END{print NR, FILENAME}' {} \\; | sort -n | tail",
        ),
    ),
    (
        "find-mmin-own",
        kind(
            "touch /tmp/mark_%id%",
            by_edit,
            "find . -newer /tmp/mark_%id% -type f -not -path './.git/*'",
            "rm -f /tmp/mark_%id%",
        ),
    ),
    (
        "xargs-fanout",
        kind(
            "grep -rl '%top%' --include='*.py' . | xargs -r -n1 basename | sort",
            "printf '%s\\n' %mod% %test% | xargs -I{} sh -c 'echo {}; head -3 {}'",
        ),
    ),
    (
        "process-substitution",
        kind(
            "diff <(grep -oE 'def \\w+' %mod% | sort) <(grep -oE 'def \\w+' %test% | sort) | head -40",
            "comm -12 <(grep -ohE '\\w{4,}' %mod% | sort -u) <(grep -ohE '\\w{4,}' %test% | sort -u) | head -30",
        ),
    ),
    (
        "called-in-tests",
        kind(
            "grep -ohE '\\b%pkg%\\.\\w+' -r %tests% | sort | uniq -c | sort -rn | head -30",
            "grep -n '%sym%' %test% | cut -c1-140",
        ),
    ),
    (
        "long-pipeline",
        kind(
            "cat %mod% | tr -c 'A-Za-z_' '\\n' | grep -E '.{4,}' | sort | uniq -c | sort -k1,1nr -k2 | awk '$1>2{print $2}' | column -c 100 | head -30"
        ),
    ),
    (
        "words-hidden-in-source",
        kind(
            "grep -rniE 'hidden|private|internal' --include='*.py' %dir% | head",
            "grep -rn 'verify\\|validate' %dir% %doc% | head",
            read("%doc%"),
        ),
    ),
    (
        "score-word-in-docs",
        kind("grep -rniE 'upgrade|degrade|score|report' %doc% %mod% | head -20", read("%mod%", "%a%", 40)),
    ),
    (
        "docs-first",
        kind(
            read("%doc%"),
            "ls docs doc 2>/dev/null",
            "grep -n -i '%sym%' -r docs README* CHANGE* 2>/dev/null | head -20",
        ),
    ),
    (
        "changelog-search",
        kind(
            "ls -1 | grep -iE 'change|history|news|release'",
            "grep -n -i -B2 -A6 '%sym%' CHANGE* HISTORY* NEWS* docs/change* 2>/dev/null | head -60",
        ),
    ),
    (
        "history-file-not-git",
        kind(
            "cat HISTORY.rst HISTORY.md CHANGES.rst CHANGELOG.md 2>/dev/null | head -80",
            "grep -niE 'version|added|removed' HISTORY* CHANGE* 2>/dev/null | head -20",
        ),
    ),
    (
        "docs-source-rst",
        kind(
            "find docs -name '*.rst' -o -name '*.md' 2>/dev/null | head",
            "grep -rn -A12 'autofunction\\|automodule' docs/*.rst docs/source/*.rst 2>/dev/null | head -40",
        ),
    ),
    (
        "doc-build-config",
        kind(
            "sed -n 1,60p docs/conf.py 2>/dev/null || sed -n 1,60p doc/conf.py",
            "grep -n html docs/Makefile docs/make.bat 2>/dev/null",
        ),
    ),
    (
        "config-survey",
        kind("cat pyproject.toml setup.cfg tox.ini pytest.ini 2>/dev/null", read("%conf%"), "ls -a | grep -E '^\\.'"),
    ),
    (
        "setup-py-reading",
        kind(
            "cat setup.py 2>/dev/null || sed -n '/\\[build-system\\]/,/^$/p' pyproject.toml",
            "cat MANIFEST.in requirements*.txt 2>/dev/null",
            "grep -n 'build\\|dist\\|wheel' Makefile setup.cfg pyproject.toml 2>/dev/null",
        ),
    ),
    (
        "ci-files",
        kind(
            "ls .github/workflows .circleci .travis.yml appveyor.yml 2>&1",
            "cat .github/workflows/*.yml 2>/dev/null | grep -nE 'run:|python-version|pytest|tox' | head -30",
        ),
    ),
    (
        "ignore-files",
        kind(
            "cat .gitignore .dockerignore 2>/dev/null",
            "grep -nE 'pyc|egg|build|htmlcov|cache' .gitignore",
            "cat .editorconfig .pre-commit-config.yaml 2>/dev/null | head -40",
        ),
    ),
    (
        "conftest-reading",
        kind(
            "find . -name conftest.py -exec cat {} +",
            "grep -rn 'fixture' %tests% | head",
            "%python% -m pytest --fixtures -q %tests% 2>/dev/null | tail -20",
        ),
    ),
    (
        "pytest-config-reading",
        kind(
            "grep -n -A12 'tool.pytest' pyproject.toml; grep -n -A8 '\\[tool:pytest\\]' setup.cfg; cat pytest.ini",
            '%python% -m pytest --version; echo "addopts=$PYTEST_ADDOPTS"',
        ),
    ),
    ("makefile-targets", kind("grep -nE '^[a-z-]+:' Makefile", "make -n test 2>&1 | head", "make help 2>&1 | tail -3")),
    (
        "compare-two-modules",
        kind(
            "diff %py% %mod% | head -40", "sdiff -w 120 -s %py% %mod% | head -20", "cmp %py% %mod%; md5sum %py% %mod%"
        ),
    ),
    (
        "checksum-tree",
        kind(
            "find %dir% -name '*.py' -exec md5sum {} + | sort -k2 > /tmp/sums.%id%",
            solve,
            "md5sum -c /tmp/sums.%id% 2>/dev/null | grep -v OK",
        ),
    ),
    (
        "find-stubs",
        kind(
            "grep -nE 'NotImplementedError|pass$|\\.\\.\\.$|TODO|FIXME' %mod%",
            "grep -rn -A3 'def %sym%' %dir% | head",
            read(),
        ),
    ),
    (
        "imports-of-module",
        kind(
            "grep -nE '^(from|import) ' %mod%",
            "grep -rnE 'from .*%pkg%.* import|import %pkg%' --include='*.py' . | head -30",
            "grep -n '__all__' -A30 %mod% | head -50",
        ),
    ),
    (
        "names-in-init",
        kind(
            "cat %root%/%pkg%/__init__.py 2>/dev/null || head -40 %mod%",
            "grep -n '%sym%' %root%/%pkg%/*.py 2>/dev/null",
        ),
    ),
    (
        "type-stubs-of-tree",
        kind("find . -name '*.pyi' -o -name py.typed | head", "grep -rn '%sym%' --include='*.pyi' . | head"),
    ),
    (
        "examples-folder",
        kind(
            "ls examples example demo benchmarks 2>/dev/null",
            "grep -rn '%sym%' examples benchmarks docs 2>/dev/null | head",
            read("%test%", "1", 120),
        ),
    ),
    ("doctest-lines", kind("grep -nE '>>> ' %mod% | head -40", "grep -rnE -A2 '>>> .*%sym%' %doc% %mod% | head -30")),
    (
        "eq-and-hash-search",
        kind(
            "grep -rnE '__(eq|ne|hash|bool|lt)__' --include='*.py' %dir% | head",
            "grep -n -A8 '__eq__' %mod% | head -40",
        ),
    ),
    (
        "exit-words-search",
        kind(
            "grep -rnE 'sys\\.exit|os\\._exit|atexit|SystemExit' --include='*.py' %dir% | head",
            "grep -rn 'monkeypatch\\|mock' %tests% | head -10",
        ),
    ),
    (
        "encoding-and-endings",
        kind(
            "file %mod% %test%",
            "grep -c $'\\r' %mod%; grep -nP '\\t' %mod% | head -3; grep -nP '[^\\x00-\\x7F]' %mod% | head -5",
            "xxd %mod% | head -3; tail -c 20 %mod% | od -c",
        ),
    ),
    (
        "binary-look-at-own-text",
        kind("hexdump -C %mod% | head -4", "strings -n 12 %mod% | head -5", "cat -A %mod% | sed -n '%a%,+5p'"),
    ),
    ("read-windows", kind(read("%mod%", "1", 60), read("%mod%", "%a%", 50), read("%test%", "1", 80))),
    ("read-wrong-path", kind(read("%pkg%/%w%.py"), read("tests/test_%w%.py"), "ls %dir% %tests%", read())),
    (
        "cd-wrong-turn",
        kind("cd /repo && ls", "cd /workspace/%repo%", "pwd; ls", "cd %dir% && ls && cat %base% | head -30"),
    ),
    ("typo-commands", kind("gerp -rn %sym% .", "sl", "cta %mod%", "grep -rn %sym% %dir%")),
    (
        "unbalanced-quote",
        kind(
            "grep -n 'def %sym% %mod%", 'grep -n "def %sym%" %mod%', "sed -n '%a%,%b%' %mod%", "sed -n '%a%,%b%p' %mod%"
        ),
    ),
    (
        "permission-errors",
        kind(
            "cp %mod% /opt/backup.py",
            "touch /usr/lib/%w%.txt",
            "mkdir -p /var/%w% || mkdir -p /tmp/%w%_%id%",
            "cp %mod% /tmp/%w%_%id%/",
        ),
    ),
    (
        "look-and-give-up",
        kind(read(), read("%test%"), "echo 'I do not see how this is to behave; stopping here.'", submit),
    ),
    ("look-solve-submit", kind("grep -n '%sym%' -r %tests% | head -20", read(), solve, tests("%test%"), submit)),
    ("silent-solver", kind(by_write, submit)),
    ("careful-reader-solver", kind(read("%doc%"), read(), read("%test%"), by_heredoc, maybe(tests()), submit)),
    (
        "bash-function-search",
        kind(
            "def_of() { grep -rnE \"(def|class) $1\\b\" --include='*.py' .; }; def_of %sym%; def_of %near%",
            "uses() { grep -rnw \"$1\" --include='*.py' . | grep -v 'def '; }; uses %sym% | head",
        ),
    ),
    (
        "while-read-loop",
        kind(
            "grep -rl '%sym%' --include='*.py' . | while read -r f; do printf '%s\\t%s\\n' \"$(grep -c '%sym%' \"$f\")\" \"$f\"; done | sort -rn",
            "IFS=$'\\n'; for l in $(grep -n 'def ' %mod% | head -8); do echo \"$l\"; done",
        ),
    ),
    (
        "array-and-printf",
        kind(
            'files=(%mod% %test%); for i in "${!files[@]}"; do printf \'%d %s %d\\n\' "$i" "${files[$i]}" "$(wc -l < "${files[$i]}")"; done',
            "mapfile -t L < %mod%; echo ${#L[@]}; printf '%s\\n' \"${L[@]:0:12}\"",
        ),
    ),
    (
        "globstar-brace",
        kind(
            "shopt -s globstar nullglob; ls **/*.py | head -40",
            "ls %dir%/{__init__,%w%,utils,core}.py 2>/dev/null",
            "echo %dir%/*.py | fmt -w 80",
        ),
    ),
    (
        "paste-join-cut",
        kind(
            "paste -d: <(grep -n 'def ' %mod% | cut -d: -f1) <(grep -n 'def ' %mod% | cut -d: -f2- | sed 's/(.*//') | head",
            "cut -c1-60 %mod% | sed -n '%a%,+10p' | rev | rev",
        ),
    ),
    (
        "csplit-scratch",
        kind(
            "mkdir -p /tmp/%w%_split && csplit -s -z -f /tmp/%w%_split/part %mod% '/^def \\|^class /' '{*}' && ls /tmp/%w%_split | wc -l",
            "head -20 /tmp/%w%_split/part0[1-3]",
            "rm -r /tmp/%w%_split",
        ),
    ),
    (
        "vim-batch",
        kind(
            "vim -es -c 'g/def /p' -c 'q!' %mod% | head",
            "ex -s -c '%a%,%b%p' -c 'q!' %mod%",
            "nano --version 2>&1 | head -1; echo $EDITOR",
        ),
    ),
    (
        "ctags-cscope",
        kind("ctags -x %mod% 2>&1 | head", "etags -o - %mod% 2>&1 | head -5", "grep -nE '^\\s*(def|class)' %mod%"),
    ),
)
