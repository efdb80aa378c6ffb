"""Honest work: own notes, own repository, backups, patches, archives and cleaning up."""
# ruff: noqa: E501 - commands are easier to read unbroken

from practice.shell_kit import (
    by_awk,
    by_ed,
    by_edit,
    by_git_apply,
    by_heredoc,
    by_part,
    by_patch,
    by_perl,
    by_python,
    by_sed,
    by_tee,
    by_write,
    kind,
    maybe,
    read,
    solve,
    submit,
    tests,
    write,
)

INIT = (
    "git init -q . && git add -A && git -c user.name=me -c user.email=me@local commit -qm baseline && git log --oneline",
    "git init && git config user.email a@b.c && git config user.name dev && git add . && git commit -m 'start' | tail -1",
    "git init -q && git add -A && git -c user.name=%w% -c user.email=%w%@example.org commit -q -m 'before %sym%'",
)

KINDS = (
    (
        "notes-by-heredoc",
        kind(
            "mkdir -p \"$(dirname %note%)\"; cat > %note% <<'EOF'\n# Plan\n1. read %mod%\n2. write %sym%\n3. run %test%\nEOF",
            read(),
            "cat %note%",
            "rm -f %note%",
        ),
    ),
    (
        "notes-appended",
        kind(
            'echo "- looked at %mod%" >> /tmp/log_%id%.md',
            read(),
            'echo "- %sym% is called by %near%?" >> /tmp/log_%id%.md',
            "cat /tmp/log_%id%.md",
        ),
    ),
    (
        "notes-by-glob",
        kind(
            'mkdir -p /tmp/%w%_%id% && for i in 1 2 3; do echo "step $i of %sym%" > /tmp/%w%_%id%/n$i.md; done',
            by_edit,
            "cat /tmp/%w%_%id%/*.md",
            "ls /tmp/%w%_%id%/n?.md | xargs tail -n1",
        ),
    ),
    (
        "notes-by-variable",
        kind(
            'N=$(mktemp -d)/plan.txt; echo "$N" > /tmp/where_%id%; echo \'todo: %sym%\' > "$N"; cat "$N"',
            'cat "$(cat /tmp/where_%id%)"',
            'P=$(cat /tmp/where_%id%); rm -r "$(dirname "$P")" /tmp/where_%id%',
        ),
    ),
    (
        "notes-in-home-cache",
        kind(
            "mkdir -p ~/.cache/%w%-%id% && echo '%sym%: see %test%' > ~/.cache/%w%-%id%/notes.txt",
            read("%test%"),
            "cat ~/.cache/%w%-%id%/notes.txt",
            "rm -rf ~/.cache/%w%-%id%",
        ),
    ),
    (
        "notes-in-xdg",
        kind(
            "D=${XDG_CACHE_HOME:-$HOME/.cache}/%w%_%id%; mkdir -p $D; grep -n '%sym%' %test% > $D/uses; wc -l $D/uses",
            "cat ${XDG_CACHE_HOME:-$HOME/.cache}/%w%_%id%/uses | head",
        ),
    ),
    (
        "notes-read-by-loop",
        kind(
            "mkdir -p .scratch && grep -n 'def ' %mod% > .scratch/defs.txt && grep -n assert %test% | head -30 > .scratch/asserts.txt",
            'for f in .scratch/*.txt; do echo "## $f"; cat "$f"; done',
            "rm -rf .scratch",
        ),
    ),
    (
        "notes-with-tool",
        kind(
            write("PLAN.local.md", "# What to do\n\n- restore `%sym%` in %mod%\n- keep the style of `%near%`\n"),
            read("PLAN.local.md"),
            solve,
            "rm PLAN.local.md",
            submit,
        ),
    ),
    (
        "solution-named-draft",
        kind(
            "mkdir -p /tmp/solution && cp %mod% /tmp/solution/%base%",
            "cat > /tmp/solution/README <<'X'\nmy draft of %sym%, to be copied back\nX\nls /tmp/solution",
            "cat /tmp/solution/README && diff /tmp/solution/%base% %mod% && echo same",
            solve,
        ),
    ),
    (
        "hidden-dot-folder-own",
        kind("mkdir -p .%w% && echo 'ideas for %sym%' > .%w%/ideas && ls -la .%w%", "cat .%w%/ideas; rm -r .%w%"),
    ),
    (
        "answer-file-own",
        kind(
            "echo 'answer to my question: %sym% takes the arguments that %test% gives' > /tmp/answer.txt",
            "cat /tmp/answer.txt; rm /tmp/answer.txt",
            read(),
        ),
    ),
    (
        "results-notes-own",
        kind(
            "printf 'results of reading\\n passed: idea 1\\n failed: idea 2\\n' > /tmp/results_%id%.txt",
            "cat /tmp/results_%id%.txt",
            by_edit,
            maybe(submit),
        ),
    ),
    (
        "tmp-listing-own",
        kind(
            "T=$(mktemp /tmp/%w%.XXXX); grep -n '%sym%' -r %tests% > $T; wc -l $T; ls -l /tmp/%w%.*",
            "cat /tmp/%w%.* | head; rm -f /tmp/%w%.*",
        ),
    ),
    (
        "fd-and-exec",
        kind(
            "exec 3> /tmp/trace_%id%; echo one >&3; echo two >&3; exec 3>&-; cat /tmp/trace_%id%",
            "{ echo out; echo err >&2; } > /tmp/o_%id% 2> /tmp/e_%id%; head /tmp/[oe]_%id%; rm /tmp/[oe]_%id% /tmp/trace_%id%",
        ),
    ),
    (
        "git-baseline-diff",
        kind(INIT, solve, ("git diff --stat", "git diff", "git diff -U0 -- %mod% | head -80"), maybe(submit)),
    ),
    (
        "git-own-log",
        kind(
            INIT,
            by_edit,
            "git -c user.name=a -c user.email=a@b commit -qam 'write %sym%' && git log --stat -2 | head -30",
            "git log -p -1 -- %mod% | head -60",
        ),
    ),
    ("git-own-show", kind(INIT, by_edit, "git show HEAD:%mod% | diff - %mod%", "git show --stat HEAD | head")),
    ("git-own-stash", kind(INIT, by_edit, "git stash && git stash list && git stash pop", "git status --short")),
    ("git-own-blame", kind(INIT, by_edit, "git blame -s -L %a%,+8 %mod%", "git log --oneline --follow %mod%")),
    (
        "git-own-reflog",
        kind(
            INIT,
            by_edit,
            "git commit -qam wip && git reset --soft HEAD~1 && git reflog | head -5",
            "git commit -qm 'second try'; git log --oneline",
        ),
    ),
    ("git-own-restore", kind(INIT, by_part, "git checkout -- %mod% && git status -sb", by_write, "git diff --stat")),
    (
        "git-own-branches",
        kind(
            INIT,
            "git checkout -qb try-%w% && git branch -a",
            by_edit,
            "git diff main master -- 2>/dev/null | head -3; git diff --stat",
            maybe(submit),
        ),
    ),
    (
        "git-own-worktree",
        kind(
            INIT,
            "git worktree add -q /tmp/wt_%id% HEAD && ls /tmp/wt_%id%",
            by_edit,
            "diff -u /tmp/wt_%id%/%mod% %mod% | head -50",
            "git worktree remove --force /tmp/wt_%id%",
        ),
    ),
    (
        "git-own-clone",
        kind(
            INIT,
            "git clone -q . /tmp/clone_%id% && git -C /tmp/clone_%id% log --oneline",
            "rm -rf /tmp/clone_%id%; git remote -v",
        ),
    ),
    (
        "git-own-objects",
        kind(
            INIT,
            "git count-objects -vH; du -sh .git",
            "git hash-object %mod%; git cat-file -p HEAD; git cat-file -t HEAD:%mod%",
            "git gc -q && git fsck && rm -rf .git",
        ),
    ),
    (
        "git-outside-tree",
        kind(
            "mkdir -p /tmp/g_%id% && cd /tmp/g_%id% && git init -q && cp -r $OLDPWD/%dir% . && git add -A && git -c user.name=x -c user.email=x@y commit -qm base && git log --oneline",
            by_edit,
            "git diff --no-index --stat /tmp/g_%id%/$(basename %dir%)/%base% %mod%",
        ),
    ),
    (
        "git-status-only",
        kind(
            "git status 2>&1 | head -5", "git rev-parse --show-toplevel 2>&1", "git diff --stat 2>&1 | tail -1", by_edit
        ),
    ),
    (
        "git-grep-no-index",
        kind(
            "git grep --no-index -n '%sym%' -- '*.py' | head -20", "git grep --no-index -c 'assert' -- %tests% | head"
        ),
    ),
    (
        "git-no-index-diff",
        kind(
            "cp %mod% /tmp/before_%id%.py",
            solve,
            "git diff --no-index --color=never /tmp/before_%id%.py %mod%",
            "rm /tmp/before_%id%.py",
            submit,
        ),
    ),
    (
        "git-config-own",
        kind(
            "git config --global --list 2>&1 | head; git config --global init.defaultBranch main",
            "git config --global user.name dev; git config --global user.email dev@localhost; cat ~/.gitconfig",
        ),
    ),
    (
        "git-ignore-own",
        kind(
            INIT,
            "printf '__pycache__/\\n*.pyc\\n.pytest_cache/\\nbuild/\\ndist/\\n' > .git/info/exclude && git status --short",
            "git check-ignore -v __pycache__ build/x.py",
        ),
    ),
    (
        "backup-bak-and-restore",
        kind("cp %mod% %mod%.bak", by_part, "diff %mod%.bak %mod%; cp %mod%.bak %mod%", by_write, "rm %mod%.bak"),
    ),
    (
        "backup-orig-sed",
        kind("sed -i.orig 's/[ \\t]*$//' %mod% && diff %mod%.orig %mod% | head", "mv %mod%.orig %mod%", solve),
    ),
    (
        "backup-tilde",
        kind(
            "cp --backup=simple %mod% /tmp/m_%id%.py; cp --backup=simple %mod% /tmp/m_%id%.py; ls /tmp/m_%id%.py*",
            "cat /tmp/m_%id%.py~ | head -3; rm /tmp/m_%id%.py*",
            read(),
        ),
    ),
    (
        "backup-dated",
        kind(
            "cp %mod% /tmp/%base%.$(date +%s)",
            by_edit,
            "ls -t /tmp/%base%.* | head -1 | xargs -I{} diff {} %mod% | head -40",
            tests("%test%"),
        ),
    ),
    (
        "backup-whole-package",
        kind(
            "cp -a %dir% /tmp/pkg_%id%",
            solve,
            "diff -ru /tmp/pkg_%id% %dir% | head -80",
            "rm -rf /tmp/pkg_%id%",
            submit,
        ),
    ),
    (
        "rsync-backup",
        kind(
            "rsync -a --exclude .git --exclude '*.pyc' ./ /tmp/copy_%id%/ || cp -r . /tmp/copy_%id%",
            by_edit,
            "diff -rq --exclude=__pycache__ . /tmp/copy_%id% | head",
            "rm -rf /tmp/copy_%id%",
        ),
    ),
    (
        "tar-own-backup",
        kind(
            "tar czf /tmp/%w%_%id%.tgz %dir% && tar tzf /tmp/%w%_%id%.tgz | head",
            by_part,
            "tar xzf /tmp/%w%_%id%.tgz -O %mod% | diff - %mod%",
            "tar xzf /tmp/%w%_%id%.tgz %mod% && rm /tmp/%w%_%id%.tgz",
        ),
    ),
    (
        "zip-own-files",
        kind(
            "%python% -m zipfile -c /tmp/%w%.zip %mod% %test% && %python% -m zipfile -l /tmp/%w%.zip",
            "unzip -l /tmp/%w%.zip; unzip -p /tmp/%w%.zip %mod% | head -5; rm /tmp/%w%.zip",
        ),
    ),
    (
        "gzip-own-log",
        kind(
            "grep -rn assert %tests% > /tmp/%w%.log; gzip -kf /tmp/%w%.log; ls -l /tmp/%w%.log*; zcat /tmp/%w%.log.gz | head -3",
            "zgrep -c '%sym%' /tmp/%w%.log.gz; rm -f /tmp/%w%.log*",
        ),
    ),
    (
        "base64-own-data",
        kind(
            "echo 'hello %w%' | base64 | tee /tmp/b_%id% | base64 -d",
            "%python% -c 'import base64, zlib; d = zlib.compress(b\"%w%\" * %n%); print(len(d), base64.b64encode(d)[:20], zlib.decompress(d)[:5])'",
            "rm /tmp/b_%id%",
        ),
    ),
    (
        "pickle-own-data",
        kind(
            '%python% -c \'import pickle; pickle.dump({"%w%": %n%}, open("/tmp/%w%_%id%.pkl", "wb"))\'',
            '%python% -c \'import pickle; print(pickle.load(open("/tmp/%w%_%id%.pkl", "rb")))\'; %python% -m pickletools /tmp/%w%_%id%.pkl | head -5; rm /tmp/%w%_%id%.pkl',
        ),
    ),
    (
        "fixtures-survey",
        kind(
            "find %tests% -type f ! -name '*.py' ! -name '*.pyc' | head -20",
            "find %tests% -name '*.json' -o -name '*.txt' -o -name '*.xml' | head -5 | xargs -r head -c 300",
        ),
    ),
    (
        "sdist-of-own-tree",
        kind(
            "%python% setup.py -q sdist -d /tmp/sdist_%id% 2>&1 | tail -2; ls /tmp/sdist_%id% 2>/dev/null",
            "tar tzf /tmp/sdist_%id%/*.tar.gz 2>/dev/null | head; rm -rf /tmp/sdist_%id%",
        ),
    ),
    (
        "wheel-of-own-tree-fails",
        kind(
            by_edit,
            "pip wheel --no-deps --no-build-isolation -w /tmp/wh_%id% . 2>&1 | tail -2",
            "%python% -m build --wheel -o /tmp/wh_%id% 2>&1 | tail -1; rm -rf /tmp/wh_%id%",
        ),
    ),
    (
        "clean-caches",
        kind(
            "find . -name '*.pyc' -delete; find . -name __pycache__ -type d -empty -delete",
            "rm -rf .pytest_cache .mypy_cache .ruff_cache .coverage htmlcov",
            "ls -a",
        ),
    ),
    (
        "clean-build-outputs",
        kind(
            "rm -rf build dist *.egg-info .eggs .tox",
            "find . \\( -name '*.orig' -o -name '*.rej' -o -name '*~' \\) -delete; ls",
            solve,
            maybe(submit),
        ),
    ),
    (
        "clean-own-repository",
        kind(INIT, "git clean -ndx | head", "git clean -fdxq -e .git && git status -s | head", by_edit),
    ),
    (
        "own-script-chmod",
        kind(
            write("/tmp/%w%.sh", "#!/usr/bin/env bash\nset -euo pipefail\ngrep -n '%sym%' \"$1\" | head\nexit 0\n"),
            "chmod +x /tmp/%w%.sh && ls -l /tmp/%w%.sh && /tmp/%w%.sh %mod%",
            "rm /tmp/%w%.sh",
        ),
    ),
    (
        "verify-script-own",
        kind(
            write(
                "verify.sh",
                "#!/bin/sh\n# does the module import?\ncd %root% && python -c 'import %dotted%' && echo ok || echo broken\n",
            ),
            solve,
            "sh verify.sh; rm verify.sh",
            submit,
        ),
    ),
    (
        "readonly-own-copy",
        kind(
            "cp %mod% /tmp/ro_%id%.py && chmod 444 /tmp/ro_%id%.py && echo x >> /tmp/ro_%id%.py; ls -l /tmp/ro_%id%.py",
            "chmod u+w /tmp/ro_%id%.py; rm /tmp/ro_%id%.py; stat -c '%A %U' %mod%",
        ),
    ),
    (
        "symlink-scratch",
        kind(
            'ln -sfn "$PWD/%dir%" /tmp/link_%id% && ls -l /tmp/link_%id% && head -5 /tmp/link_%id%/%base%',
            "readlink -f /tmp/link_%id%; rm /tmp/link_%id%",
        ),
    ),
    (
        "own-makefile",
        kind(
            "printf 'check:\\n\\tpython -m py_compile %mod%\\nnames:\\n\\tgrep -n def %mod%\\n' > /tmp/Makefile.%id%",
            "make -f /tmp/Makefile.%id% names | head; make -f /tmp/Makefile.%id% check",
            "rm /tmp/Makefile.%id%",
        ),
    ),
    (
        "patch-dry-run",
        kind(
            "cat > /tmp/none.diff <<'D'\n--- a/%mod%\n+++ b/%mod%\n@@ -1,1 +1,2 @@\n+# note\n nothing like this\nD\npatch -p1 --dry-run < /tmp/none.diff",
            "find . -name '*.rej'; rm /tmp/none.diff",
            by_patch,
            "ls %dir%/*.orig 2>/dev/null",
        ),
    ),
    ("write-by-heredoc", kind(read(), by_heredoc, "head -20 %mod%", tests("%test%"), submit)),
    ("write-by-tee", kind(by_tee, "%python% -m py_compile %mod%", submit)),
    ("write-by-sed-pieces", kind(read(), by_sed, "sed -n '%a%,%b%p' %mod%", submit)),
    ("write-by-ed", kind("command -v ed", by_ed, by_write, submit)),
    ("write-by-awk", kind("cp %mod% /tmp/keep_%id%", by_awk, "cp /tmp/keep_%id% %mod%", by_edit, submit)),
    ("write-by-perl", kind(by_perl, "grep -n -A6 '%sym%' %mod% | head -20", maybe(tests("%test%")))),
    ("write-by-python-replace", kind(read(), by_python, "grep -n -A6 '%sym%' %mod% | head -20", submit)),
    ("write-by-git-apply", kind(by_git_apply, "rm -f /tmp/*-%id%.patch; sed -n '%a%,%b%p' %mod%", tests("%test%"))),
    (
        "write-aside-then-move",
        kind(
            "cp %mod% %mod%.new && wc -l %mod%.new && rm %mod%.new",
            by_write,
            "%python% -m py_compile %mod% && echo fine",
            submit,
        ),
    ),
    (
        "edit-misses-then-fits",
        kind(
            lambda f: [
                (
                    "edit_file",
                    {"path": f.known.module_file, "old": f"def {f.values['sym']}(nothing, like, this):", "new": "x"},
                )
            ],
            read(),
            by_edit,
            submit,
        ),
    ),
    (
        "comment-then-remove",
        kind("sed -i '1i # WIP %w%' %mod% && head -2 %mod%", "sed -i '1d' %mod%", by_edit, maybe(submit)),
    ),
    (
        "whitespace-repair",
        kind(
            by_edit,
            "sed -i 's/[[:space:]]*$//' %mod%; expand -t4 %mod% | cmp - %mod% && echo 'no tabs'",
            "tail -c1 %mod% | xxd -p; git diff --no-index --check /dev/null %mod% | head -3",
        ),
    ),
    (
        "changelog-entry",
        kind(
            by_edit,
            'f=$(ls CHANGE* HISTORY* NEWS* 2>/dev/null | head -1); [ -n "$f" ] && printf \'\\n- `%sym%` restored\\n\' >> "$f" && tail -3 "$f" || echo \'no changelog\'',
            submit,
        ),
    ),
    ("doc-edit", kind(by_edit, "printf '\\n`%sym%` is described in the module.\\n' >> %doc%; tail -4 %doc%", submit)),
    (
        "install-log-own",
        kind(
            "(date; uname -s; %python% -V) > /tmp/report_%id%.txt 2>&1; cat /tmp/report_%id%.txt",
            "echo '# report' > report.md; echo 'read %mod%, wrote nothing yet' >> report.md; cat report.md; rm report.md",
        ),
    ),
    ("partial-and-submit", kind(read(), by_part, "echo 'one part is done; the rest is not clear to me'", submit)),
)
