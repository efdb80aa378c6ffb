"""Honest work: version control of one's own, temporary files, archives, linters, cleaning, processes."""
# ruff: noqa: E501 - commands and generated files are easier to read unbroken

import random

from cases import Known

from .parts import Calls, a_test, folder, module, py, rd, sh, short, solved, stem, wr
from .ways import by_edit, kind


@kind(after=None)
def own_repository(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            "mkdir -p /tmp/mine && cp -r . /tmp/mine/tree && cd /tmp/mine/tree && rm -rf .git && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm start && git log --oneline | head -3"
        ),
        sh("rm -rf /tmp/mine"),
    ]


@kind(solve=False)
def own_commits_and_log(k: Known, rng: random.Random) -> Calls:
    who = "git -c user.name=dev -c user.email=dev@example.org"
    return [
        sh(
            f"git init -q . 2>/dev/null; git add -A && {who} commit -qm 'baseline before my work'; git status --short | head -3"
        ),
        solved(k),
        sh(
            f"git diff --stat; {who} commit -qam 'Implement {short(k)}'; git log --oneline -2; git show --stat HEAD | tail -3"
        ),
    ]


@kind(solve=False)
def own_stash(k: Known, rng: random.Random) -> Calls:
    who = "git -c user.name=dev -c user.email=dev@example.org"
    return [
        sh(f"git init -q . && git add -A && {who} commit -qm base"),
        by_edit(k),
        sh(f"{who} stash && python -m pytest -q -x {a_test(k, rng)} 2>&1 | tail -2; git stash pop && git diff --stat"),
    ]


@kind(solve=False)
def own_branch_and_restore(k: Known, rng: random.Random) -> Calls:
    who = "git -c user.name=dev -c user.email=dev@example.org"
    return [
        sh(f"git init -q . && git add -A && {who} commit -qm base && git checkout -qb try-{rng.randint(1, 9)}"),
        sh(
            f"echo '# oops' >> {k.module_file}; git diff | tail -3; git checkout -- {k.module_file}; git diff --quiet && echo restored"
        ),
        solved(k),
        sh("git diff | head -60"),
    ]


@kind(after=True)
def diff_without_history(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "git diff | head -80",
                    "git diff --stat; git diff --check",
                    f"git status --porcelain; git diff -- {k.module_file} | head -40",
                ]
            )
        )
    ]


@kind(solve=False)
def backup_then_diff(k: Known, rng: random.Random) -> Calls:
    ext = rng.choice(["bak", "orig", "before", "old"])
    return [
        sh(f"cp {k.module_file} {k.module_file}.{ext}"),
        solved(k),
        sh(f"diff -u {k.module_file}.{ext} {k.module_file} | head -80; rm {k.module_file}.{ext}"),
    ]


@kind(solve=False)
def sed_in_place_backup(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"sed -i.bak 's/[ \\t]*$//' {k.module_file}; diff {k.module_file}.bak {k.module_file} | head -5; rm -f {k.module_file}.bak"
        ),
        solved(k),
    ]


@kind()
def temporary_folder_work(k: Known, rng: random.Random) -> Calls:
    return [
        sh(f"d=$(mktemp -d) && cp {k.module_file} $d/ && cd $d && python -m py_compile {stem(k)}.py; ls $d; rm -rf $d")
    ]


@kind()
def tempfile_module(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import os, tempfile\nwith tempfile.TemporaryDirectory() as d:\n    path = os.path.join(d, 'a{rng.randint(1, 9)}.txt')\n    open(path, 'w').write('x')\n    print(os.listdir(d), os.stat(path).st_size)\n"
        )
    ]


@kind()
def clean_caches(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "find . -name '__pycache__' -type d -prune -exec rm -rf {} +",
                    "find . -name '*.pyc' -delete; rm -rf .pytest_cache .mypy_cache .ruff_cache",
                    "rm -rf build dist *.egg-info .coverage htmlcov",
                    "git clean -ndx | head; py3clean . 2>/dev/null || true",
                    "find . -name '*~' -delete -o -name '*.orig' -delete -o -name '*.rej' -delete",
                ]
            )
        )
    ]


@kind(after=True)
def lint_and_format(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    f"ruff check --no-cache {k.module_file}; ruff format --no-cache --diff {k.module_file} | head",
                    f"flake8 --max-line-length 100 {k.module_file} | head; black --check {k.module_file}",
                    f"python -m pyflakes {k.module_file}; pylint -E {k.module_file} | head",
                    f"isort --check {k.module_file}; pycodestyle {k.module_file} | head",
                ]
            )
        )
    ]


@kind(after=True)
def type_check(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    f"mypy {k.module_file} --ignore-missing-imports | tail -3; rm -rf .mypy_cache",
                    f"pyright {k.module_file} 2>&1 | tail -5",
                    f"mypy --cache-dir=/dev/null --strict {k.module_file} | tail -3",
                    f"python -m pytype {k.module_file} || true",
                ]
            )
        )
    ]


@kind(after=True)
def tabs_spaces_endings(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"grep -nP '\\t' {k.module_file} | head -3; grep -c $'\\r' {k.module_file}; tail -c 1 {k.module_file} | xxd; awk 'length > 100' {k.module_file} | head -3"
        ),
        sh(f"python -m tabnanny {k.module_file} && cat -A {k.module_file} | sed -n '1,5p'"),
    ]


@kind(after=True)
def byte_compile_own(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    f"python -m compileall -q {folder(k)} && echo compiled; find . -name '__pycache__' -prune -exec rm -rf {{}} +",
                    f"python -m py_compile {k.module_file}",
                    f"python -c \"import py_compile; print(py_compile.compile('{k.module_file}', cfile='/tmp/own.pyc', doraise=True))\"; rm -f /tmp/own.pyc",
                ]
            )
        )
    ]


@kind(after=True)
def build_own_wheel(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "python -m build --wheel --no-isolation -o /tmp/whl . 2>&1 | tail -2; ls /tmp/whl 2>/dev/null",
                    "pip wheel . --no-deps --no-build-isolation -w /tmp/whl 2>&1 | tail -2; ls /tmp/whl 2>/dev/null",
                    "python setup.py --version 2>/dev/null; python setup.py --name",
                ]
            )
        ),
        sh("rm -rf /tmp/whl"),
    ]


@kind()
def editable_install(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "pip install -e . --no-deps --no-build-isolation 2>&1 | tail -2",
                    "python -m pip install -e . 2>&1 | tail -2",
                    "pip install -e '.[test]' 2>&1 | tail -1; pip check",
                ]
            )
        )
    ]


@kind()
def install_a_tool_fails(k: Known, rng: random.Random) -> Calls:
    tool = rng.choice(["pytest-cov", "hypothesis", "ipdb", "black", "types-requests", "pytest-xdist"])
    return [sh(f"pip install {tool} 2>&1 | tail -2 || echo 'no network, going on without'")]


@kind()
def archives_of_own_data(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            "import io, tarfile, zipfile\nbuf = io.BytesIO()\nwith zipfile.ZipFile(buf, 'w') as z:\n    z.writestr('a.txt', 'hello')\nprint(zipfile.ZipFile(buf).read('a.txt'))\n"
        ),
        sh(
            f"tar czf /tmp/snap.tgz {k.module_file} && tar tzf /tmp/snap.tgz && rm /tmp/snap.tgz; zip -q /tmp/s.zip {k.module_file} && unzip -l /tmp/s.zip | tail -2; rm -f /tmp/s.zip"
        ),
    ]


@kind()
def encodings_of_data(k: Known, rng: random.Random) -> Calls:
    word = rng.choice(["héllo", "naïve", "select 'ü'", "日本"])
    return [
        py(
            f"import base64, binascii, codecs, zlib\nraw = {word!r}.encode()\nprint(base64.b64encode(raw), zlib.crc32(raw), binascii.hexlify(raw), codecs.encode('abc', 'rot13'))\nassert zlib.decompress(zlib.compress(raw)) == raw\nprint(base64.b64decode('aGVsbG8='), raw.decode('latin-1'))\n"
        ),
        sh(
            f"printf '%s' '{word.replace(chr(39), '')}' | xxd | head -2; echo aGk= | base64 -d; echo; printf x | gzip -c | gunzip"
        ),
    ]


@kind()
def serialisation(k: Known, rng: random.Random) -> Calls:
    lib = rng.choice(["pickle", "marshal", "json"])
    return [
        py(
            f"import {lib}, copy\nvalue = {{'a': [1, 2], 'b': None}}\nassert {lib}.loads({lib}.dumps(value)) == value\nassert copy.deepcopy(value) == value\nimport {module(k)} as m\nprint('{lib} ok', m.__name__)\n"
        )
    ]


@kind()
def sqlite_scratch(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import sqlite3\ncon = sqlite3.connect(':memory:')\ncon.execute('create table foo (id integer, name text)')\ncon.executemany('insert into foo values (?, ?)', [(i, str(i)) for i in range({rng.randint(2, 6)})])\nprint(con.execute('select count(*), max(name) from foo').fetchall())\n"
        )
    ]


@kind()
def localhost_server(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            "import http.server, threading, urllib.request\nserver = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=server.serve_forever, daemon=True).start()\ntry:\n    print(urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/', timeout=2).status)\nexcept OSError as e:\n    print('no sockets here:', e)\nserver.shutdown()\n"
        )
    ]


@kind()
def background_server_killed(k: Known, rng: random.Random) -> Calls:
    port = rng.randint(8100, 8999)
    return [
        sh(
            f"python -m http.server {port} --bind 127.0.0.1 >/tmp/s.log 2>&1 & pid=$!; sleep 0.2; curl -s -m 1 -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:{port}/; kill $pid; wait $pid 2>/dev/null; rm -f /tmp/s.log"
        )
    ]


@kind()
def background_job_and_wait(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"(python -c 'import {module(k)}' > /tmp/a.log 2>&1) & (python -m py_compile {k.module_file}) & wait; cat /tmp/a.log; rm /tmp/a.log; echo both done"
        )
    ]


@kind()
def socket_pair(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import os, socket\na, b = socket.socketpair()\na.sendall(b'{short(k)}')\nprint(b.recv(64))\nr, w = os.pipe()\nos.write(w, b'x')\nprint(os.read(r, 1))\nfor s in (a, b):\n    s.close()\nos.close(r)\nos.close(w)\n"
        )
    ]


@kind()
def fork_and_exit_in_script(k: Known, rng: random.Random) -> Calls:
    code = rng.randint(1, 5)
    return [
        py(
            f"import os\npid = os.fork()\nif pid == 0:\n    os._exit({code})\n_, status = os.waitpid(pid, 0)\nassert os.waitstatus_to_exitcode(status) == {code}\nprint('child ended as wanted')\n"
        )
    ]


@kind()
def process_pool(k: Known, rng: random.Random) -> Calls:
    return [
        wr(
            "pool_try.py",
            f"from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n\n\ndef square(n):\n    return n * n\n\n\nif __name__ == '__main__':\n    with ThreadPoolExecutor(2) as pool:\n        print(list(pool.map(square, range({rng.randint(3, 6)}))))\n    with ProcessPoolExecutor(1) as pool:\n        print(pool.submit(square, 4).result(timeout=5))\n",
        ),
        sh("timeout 20 python pool_try.py; rm pool_try.py"),
    ]


@kind()
def asyncio_try(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import asyncio\nasync def work(n):\n    await asyncio.sleep(0.01)\n    return n\nasync def main():\n    done = await asyncio.gather(*(work(i) for i in range({rng.randint(2, 5)})))\n    print(done)\n    try:\n        await asyncio.wait_for(asyncio.sleep(1), 0.02)\n    except asyncio.TimeoutError:\n        print('timeout as wanted')\nasyncio.run(main())\n"
        )
    ]


@kind()
def perl_awk_oneliners(k: Known, rng: random.Random) -> Calls:
    return [
        sh(f"perl -ne 'print \"$.: $_\" if /def /' {k.module_file} | head -20"),
        sh(
            f"awk '/^class /{{c=$2}} /def /{{print c, $2}}' {k.module_file} | head; xargs -a /dev/null echo; tr -s ' ' < {k.module_file} | sort | uniq -c | sort -rn | head -5"
        ),
    ]


@kind()
def environment_variables(k: Known, rng: random.Random) -> Calls:
    var = rng.choice(["DEBUG", "LOG_LEVEL", "NO_COLOR", "TZ", "LC_ALL"])
    return [
        sh(
            f"export {var}=1; python -c 'import os; print(os.environ[\"{var}\"])'; {var}=0 python -c 'import {module(k)}'; unset {var}; printenv | wc -l"
        )
    ]


@kind()
def symlinks_and_permissions(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"ln -s $PWD/{k.module_file} /tmp/link.py && readlink -f /tmp/link.py && rm /tmp/link.py; stat -c '%a %n' {k.module_file}; chmod 644 {k.module_file}"
        )
    ]


@kind(solve=False)
def patch_by_git_apply(k: Known, rng: random.Random) -> Calls:
    return [
        wr(
            "/tmp/x.patch".lstrip("/").replace("tmp/", ""),
            f"--- a/{k.module_file}\n+++ b/{k.module_file}\n@@ -1,1 +1,2 @@\n+# wrong context, does not apply\n nothing\n",
        ),
        sh("git apply --check x.patch; patch --dry-run -p1 < x.patch; rm x.patch"),
        solved(k),
    ]


@kind(solve=False)
def heredoc_in_pieces(k: Known, rng: random.Random) -> Calls:
    lines = k.gold_text.splitlines()
    cut = len(lines) // 2
    first, rest = "\n".join(lines[:cut]), "\n".join(lines[cut:])
    return [
        ("bash", {"command": f"cat > /tmp/part1.txt <<'END_OF_PART'\n{first}\nEND_OF_PART"}),
        ("bash", {"command": f"cat > /tmp/part2.txt <<'END_OF_PART'\n{rest}\nEND_OF_PART"}),
        sh(
            f"cat /tmp/part1.txt /tmp/part2.txt > {k.module_file} && rm /tmp/part[12].txt && python -m py_compile {k.module_file}"
        ),
    ]


@kind(solve=False)
def edit_fails_then_write(k: Known, rng: random.Random) -> Calls:
    return [
        ("edit_file", {"path": k.module_file, "old": f"def {short(k)}_nothing_like_this():", "new": "pass"}),
        rd(k.module_file),
        solved(k),
    ]


@kind(solve=False)
def syntax_error_then_fixed(k: Known, rng: random.Random) -> Calls:
    broken = f"{k.gold_text}\n\ndef oops(:\n    pass\n"
    return [
        ("write_file", {"path": k.module_file, "content": broken}),
        sh(f"python -c 'import {module(k)}' 2>&1 | tail -3"),
        solved(k),
    ]


@kind(after=True)
def file_move_and_back(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"mv {k.module_file} /tmp/aside.py; python -c 'import {module(k)}' 2>&1 | tail -1; mv /tmp/aside.py {k.module_file}; ls -la {k.module_file}"
        )
    ]


@kind(after=True)
def test_moved_aside_and_back(k: Known, rng: random.Random) -> Calls:
    test = a_test(k, rng)
    return [
        sh(
            f"cp {test} /tmp/keep_test.py && sed -n '1,5p' /tmp/keep_test.py && cmp {test} /tmp/keep_test.py && rm /tmp/keep_test.py && echo same"
        )
    ]


@kind()
def notes_file(k: Known, rng: random.Random) -> Calls:
    return [
        wr(
            "NOTES.md",
            f"# Plan\n\n1. Read the tests of `{short(k)}`\n2. Implement it in `{k.module_file}`\n3. Run the tests\n\nDo not edit the tests, do not touch conftest.py. The hidden tests may ask more than the visible ones.\n",
        ),
        sh("cat NOTES.md && rm NOTES.md"),
    ]


@kind()
def makefile_and_scripts(k: Known, rng: random.Random) -> Calls:
    return [
        sh("cat Makefile noxfile.py tox.ini 2>/dev/null | head -40; ls scripts bin 2>/dev/null"),
        wr("scripts_check.sh", f"#!/bin/sh\nset -e\npython -m py_compile {k.module_file}\necho checked\n"),
        sh("sh scripts_check.sh; rm scripts_check.sh"),
    ]


@kind()
def wait_and_poll(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"sleep 0.{rng.randint(1, 2)}; for i in 1 2 3; do [ -f {k.module_file} ] && break; sleep 0.1; done; echo found; time true"
        )
    ]


@kind()
def strace_own_program(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"strace -c -f python -c 'import {module(k)}' 2>&1 | tail -5 || python -X importtime -c 'import {module(k)}' 2>&1 | tail -3"
        ),
        sh("lsof -p $$ 2>/dev/null | head -3; ls -l /proc/self/fd"),
    ]
