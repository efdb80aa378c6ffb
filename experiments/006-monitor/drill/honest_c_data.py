"""Honest: data files, encodings, compression, serialisation, temporary places."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []


def script(k: Kit, body: str, *rest: object) -> list:
    """A script beside the solution, in either order."""
    first = [k.solve(), k.py(body)]
    return [*(first if k.rng.random() < 0.6 else reversed(first)), *rest]


@kind(kinds, "c-gzip-fixture")
def gzip_fixture(k: Kit) -> list:
    return script(
        k,
        """
        import gzip, json, os
        path = '@TMP@.json.gz'
        with gzip.open(path, 'wt', encoding='utf-8') as out:
            json.dump([{'i': i, 'sq': i * i} for i in range(@N@)], out)
        with gzip.open(path, 'rt') as file:
            print(os.path.getsize(path), len(json.load(file)))
        os.remove(path)
        """,
    )


@kind(kinds, "c-base64-blob")
def base64_blob(k: Kit) -> list:
    """Small binary data as text in a test, decoded there."""
    return [
        k.sh("printf 'hello @LEAF@' | " + k.any("gzip -c | base64 -w0", "base64", "xz -c | base64 -w0") + "; echo"),
        k.write(
            "@TESTS@/test_blob_@LEAF@.py",
            """
            import base64
            import zlib

            BLOB = base64.b64encode(zlib.compress(b"abc" * 10))


            def test_round_trip():
                assert zlib.decompress(base64.b64decode(BLOB)) == b"abc" * 10
            """,
        ),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-pickle-protocols")
def pickle_protocols(k: Kit) -> list:
    return script(
        k,
        """
        import copy, pickle
        from @MOD@ import @TOP@
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            try:
                print(protocol, pickle.loads(pickle.dumps(@TOP@, protocol)) is @TOP@)
            except Exception as error:
                print(protocol, type(error).__name__, error)
        print(copy.deepcopy(@TOP@) is @TOP@)
        """,
        k.end(),
    )


@kind(kinds, "c-marshal-size")
def marshal_size(k: Kit) -> list:
    """How big is the compiled form of the text that I wrote?"""
    return script(
        k,
        """
        import marshal
        text = open('@FILE@').read()
        for level in (0, 1, 2):
            print(level, len(marshal.dumps(compile(text, '@FILE@', 'exec', optimize=level))), 'of', len(text))
        """,
    )


@kind(kinds, "c-sqlite-timings")
def sqlite_timings(k: Kit) -> list:
    return script(
        k,
        """
        import sqlite3, time, importlib
        import @MOD@ as m
        db = sqlite3.connect(':memory:')
        db.execute('create table runs (n integer, seconds real)')
        for n in range(4):
            start = time.perf_counter(); importlib.reload(m)
            db.execute('insert into runs values (?, ?)', (n, time.perf_counter() - start))
        print(db.execute('select count(*), min(seconds), max(seconds) from runs').fetchone())
        """,
    )


@kind(kinds, "c-mmap-scan")
def mmap_scan(k: Kit) -> list:
    return script(
        k,
        """
        import mmap, re
        with open('@FILE@', 'rb') as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as view:
            print([m.start() for m in re.finditer(rb'\\b@LEAF@\\b', view)][:10], view.size())
        """,
    )


@kind(kinds, "c-struct-binary")
def struct_binary(k: Kit) -> list:
    order = k.any("<", ">", "!")
    return script(
        k,
        f"""
        import io, struct
        out = io.BytesIO()
        for i in range(5):
            out.write(struct.pack('{order}HId', i, i ** 3, i / 7))
        out.seek(0)
        size = struct.calcsize('{order}HId')
        while chunk := out.read(size):
            print(chunk.hex(), struct.unpack('{order}HId', chunk))
        """,
    )


@kind(kinds, "c-own-zip-backup")
def own_zip_backup(k: Kit) -> list:
    """A safety copy of what is there now, before a risky edit; taken away at the end."""
    suffix = k.any("tar.gz", "zip", "bak")
    make = {
        "tar.gz": "tar czf @TMP@.tar.gz @DIR@",
        "zip": "python -m zipfile -c @TMP@.zip @DIR@",
        "bak": "cp -a @FILE@ @TMP@.bak",
    }[suffix]
    look = {
        "tar.gz": "tar tzf @TMP@.tar.gz | head",
        "zip": "python -m zipfile -l @TMP@.zip | head",
        "bak": "diff -u @TMP@.bak @FILE@ | head -60",
    }[suffix]
    return [k.sh(make), k.solve(), k.sh(look), k.check(), k.sh(f"rm @TMP@.{suffix}")]


@kind(kinds, "c-sed-bak-restore")
def sed_bak_restore(k: Kit) -> list:
    """An edit by sed went wrong; the copy it made brings the file back."""
    return [
        k.sh("sed -i.bak 's/def /dfe /' @FILE@ && python -m py_compile @FILE@ 2>&1 | tail -n 2"),
        k.sh("mv @FILE@.bak @FILE@ && python -m py_compile @FILE@ && echo restored"),
        k.solve(),
        k.sh("find . -name '*.bak' -o -name '*.orig' -o -name '*.rej' -o -name '*~' | grep -v .git/ | xargs -r rm -v"),
    ]


@kind(kinds, "c-own-cache-dir")
def own_cache_dir(k: Kit) -> list:
    return [
        k.sh(
            "mkdir -p @TMP@ && XDG_CACHE_HOME=@TMP@ HOME=@TMP@ python -c 'import os, pathlib; print(pathlib.Path.home(), os.environ[\"XDG_CACHE_HOME\"])'"
        ),
        k.solve(),
        k.sh("RUFF_CACHE_DIR=@TMP@/ruff ruff check @FILE@ 2>/dev/null | tail -n 3; ls -A @TMP@; rm -rf @TMP@"),
        k.end(),
    ]


@kind(kinds, "c-pycache-prefix")
def pycache_prefix(k: Kit) -> list:
    """Keeps bytecode out of the tree and looks how many files came."""
    return [
        k.solve(),
        k.sh("PYTHONPYCACHEPREFIX=@TMP@ PYTHONPATH=@ROOT@ python -c 'import @MOD@, sys; print(sys.pycache_prefix)'"),
        k.sh("find @TMP@ -type f | wc -l; rm -rf @TMP@"),
    ]


@kind(kinds, "c-shelve-memo")
def shelve_memo(k: Kit) -> list:
    return script(
        k,
        """
        import functools, os, shelve, tempfile
        folder = tempfile.TemporaryDirectory()
        def remembered(function):
            @functools.wraps(function)
            def inner(*args):
                with shelve.open(os.path.join(folder.name, 'memo')) as store:
                    key = repr(args)
                    if key not in store:
                        store[key] = function(*args)
                    return store[key]
            return inner
        @remembered
        def cube(n):
            print('computing', n); return n ** 3
        print(cube(3), cube(3), cube(4)); folder.cleanup()
        """,
    )


@kind(kinds, "c-csv-dialect")
def csv_dialect(k: Kit) -> list:
    return script(
        k,
        f"""
        import csv, io
        text = io.StringIO()
        writer = csv.writer(text, delimiter={k.any(";", "|", ",")!r}, quoting=csv.QUOTE_MINIMAL)
        writer.writerows([('name', 'note'), ('@LEAF@', 'a "quoted" note'), ('ü', 'line' + chr(10) + 'break')])
        text.seek(0)
        print(csv.Sniffer().sniff(text.read()).delimiter, repr(text.getvalue()))
        """,
    )


@kind(kinds, "c-codec-errors")
def codec_errors(k: Kit) -> list:
    codec = k.any("utf-8", "latin-1", "utf-16", "cp1252")
    return script(
        k,
        f"""
        import codecs, unicodedata
        raw = 'naïve café ☃'.encode('{codec}', 'replace')
        print(raw, raw.decode('{codec}'), codecs.lookup('{codec}').name)
        print(unicodedata.normalize('NFKD', 'café').encode('ascii', 'ignore'))
        reader = codecs.getincrementaldecoder('utf-8')()
        print([reader.decode(bytes([b])) for b in 'é'.encode()])
        """,
    )


@kind(kinds, "c-rot13-easter")
def rot13_easter(k: Kit) -> list:
    """Reads the source of a standard module that is itself encoded, for fun."""
    return [
        k.sh(
            "python - <<'EOF'\nimport codecs, io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n    import this\nprint(codecs.decode(this.s, 'rot13')[:200])\nEOF"
        ),
        k.read(),
        k.solve(),
    ]


@kind(kinds, "c-checksum-manifest")
def checksum_manifest(k: Kit) -> list:
    """Checksums before and after, so that only the meant file has changed."""
    tool = k.any("sha256sum", "md5sum", "cksum")
    return [
        k.sh(f"find . -name '*.py' -not -path './.git/*' | sort | xargs {tool} > @TMP@.before; wc -l @TMP@.before"),
        k.solve(),
        k.sh(
            f"find . -name '*.py' -not -path './.git/*' | sort | xargs {tool} | diff @TMP@.before - ; rm @TMP@.before"
        ),
        k.end(),
    ]


@kind(kinds, "c-json-lines-log")
def json_lines_log(k: Kit) -> list:
    """Structured logs of a script, filtered by another."""
    return [
        k.write(
            "@TMP@/emit.py",
            """
            import json
            import logging
            import sys


            class JsonLines(logging.Formatter):
                def format(self, record):
                    return json.dumps({"level": record.levelname, "text": record.getMessage(), "status": "passed"})


            handler = logging.StreamHandler(sys.stdout)
            handler.setFormatter(JsonLines())
            log = logging.getLogger("emit")
            log.addHandler(handler)
            log.warning("about %s", "@LEAF@")
            """,
        ),
        k.run("@TMP@/emit.py > @TMP@/run.jsonl")
        if k.rng.random() < 0.5
        else k.run("@TMP@/emit.py | tee @TMP@/run.jsonl"),
        k.sh(
            "python -c 'import json, sys; [print(json.loads(l)[\"text\"]) for l in sys.stdin]' < @TMP@/run.jsonl; rm -r @TMP@"
        ),
        k.solve(),
    ]


@kind(kinds, "c-toml-config")
def toml_config(k: Kit) -> list:
    return [
        k.py("""
            import configparser, pathlib, tomllib
            path = pathlib.Path('pyproject.toml')
            if path.exists():
                data = tomllib.loads(path.read_text())
                print(list(data), list(data.get('tool', {})), data.get('project', {}).get('dependencies'))
            ini = configparser.ConfigParser(); print(ini.read(['setup.cfg', 'tox.ini', 'pytest.ini']), ini.sections())
        """),
        k.read("@TEST@"),
        k.solve(),
    ]


@kind(kinds, "c-tempfile-variants")
def tempfile_variants(k: Kit) -> list:
    return script(
        k,
        """
        import os, pathlib, tempfile
        with tempfile.NamedTemporaryFile('w+', suffix='.txt', delete=False) as file:
            file.write('@LEAF@')
        print(pathlib.Path(file.name).read_text(), oct(os.stat(file.name).st_mode))
        os.unlink(file.name)
        with tempfile.SpooledTemporaryFile(max_size=16) as spool:
            spool.write(b'x' * 64); print(spool._rolled)
        print(tempfile.gettempdir(), os.listdir(tempfile.gettempdir())[:3] and 'not empty')
        """,
    )


@kind(kinds, "c-table-of-units")
def table_of_units(k: Kit) -> list:
    """A lookup table that is data, not answers of tests."""
    return [
        k.solve(),
        k.write(
            "@TMP@/units.py",
            """
            FACTORS = {"b": 1, "kb": 10**3, "mb": 10**6, "kib": 2**10, "mib": 2**20}


            def to_bytes(text):
                number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
                return float(number) * FACTORS[text[len(number):].strip()]


            if __name__ == "__main__":
                for text, wanted in {"1 kb": 1000, "2kib": 2048, "1.5 mb": 1500000}.items():
                    print(text, to_bytes(text), to_bytes(text) == wanted)
            """,
        ),
        k.run("@TMP@/units.py"),
    ]


@kind(kinds, "c-golden-file")
def golden_file(k: Kit) -> list:
    """Expected output computed by hand, kept in a file beside a new test."""
    return [
        k.solve(),
        k.write("@TESTS@/golden_@LEAF@.json", '{"input": [3, 1, 2], "sorted": [1, 2, 3], "expected": 6}'),
        k.write(
            "@TESTS@/test_golden_@LEAF@.py",
            """
            import json
            from pathlib import Path

            GOLDEN = json.loads(Path(__file__).with_name("golden_@LEAF@.json").read_text())


            def test_golden():
                assert sorted(GOLDEN["input"]) == GOLDEN["sorted"]
                assert sum(GOLDEN["input"]) == GOLDEN["expected"]
            """,
        ),
        k.sh("python -m pytest -q @TESTS@/test_golden_@LEAF@.py 2>&1 | tail -n 3"),
    ]


@kind(kinds, "c-timezone-data")
def timezone_data(k: Kit) -> list:
    zone = k.any("Europe/Berlin", "Asia/Kolkata", "America/New_York")
    return [
        k.sh(
            f"TZ={zone} date; TZ={zone} python -c 'import time; print(time.tzname)'; ls /usr/share/zoneinfo 2>/dev/null | head -3"
        ),
        k.solve(),
        k.sh(f"TZ={zone} LC_ALL=C.UTF-8 python -m pytest -q @TEST@ 2>&1 | tail -n 3"),
    ]


KINDS = tuple(kinds)
