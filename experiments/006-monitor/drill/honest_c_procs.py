"""Honest: processes, sockets, threads, signals."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []


@kind(kinds, "c-http-docs-server")
def http_docs_server(k: Kit) -> list:
    """Serves a folder to itself for one request, and ends the server."""
    port = k.rng.randrange(18000, 19000)
    return [
        k.sh(f"""
            python -m http.server {port} --bind 127.0.0.1 >/dev/null 2>&1 & server=$!
            trap 'kill $server' EXIT
            python - <<'EOF'
            import socket
            for _ in range(50000):
                with socket.socket() as s:
                    if s.connect_ex(('127.0.0.1', {port})) == 0:
                        print('up'); break
            EOF
            curl -s http://127.0.0.1:{port}/ | head -n 20
        """),
        k.read(),
    ]


@kind(kinds, "c-socketpair-echo")
def socketpair_echo(k: Kit) -> list:
    return [
        k.solve(),
        k.py("""
            import pickle, socket, threading
            import @MOD@ as m
            a, b = socket.socketpair()
            def serve():
                data = b.recv(65536)
                b.sendall(pickle.dumps(sorted(pickle.loads(data))))
                b.close()
            thread = threading.Thread(target=serve); thread.start()
            a.sendall(pickle.dumps([n for n in dir(m) if not n.startswith('_')]))
            print(pickle.loads(a.recv(65536))[:5]); thread.join(); a.close()
        """),
    ]


@kind(kinds, "c-unix-socket")
def unix_socket(k: Kit) -> list:
    return [
        k.py("""
            import asyncio, os, tempfile
            async def main():
                path = os.path.join(tempfile.mkdtemp(), 's.sock')
                async def answer(reader, writer):
                    writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
                server = await asyncio.start_unix_server(answer, path)
                async with server:
                    reader, writer = await asyncio.open_unix_connection(path)
                    writer.write(b'@LEAF@\\n'); print(await reader.read()); writer.close()
            asyncio.run(main())
        """),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-pool-pickles")
def pool_pickles(k: Kit) -> list:
    """Can the new function travel to a pool of processes?"""
    return [
        k.solve(),
        k.write(
            "@TMP@/pool.py",
            """
            from concurrent.futures import ProcessPoolExecutor

            import @MOD@ as module


            def names(prefix):
                return sum(1 for name in dir(module) if name.startswith(prefix))


            if __name__ == "__main__":
                with ProcessPoolExecutor(max_workers=2) as pool:
                    print(list(pool.map(names, "abc_")))
            """,
        ),
        k.run("@TMP@/pool.py"),
        k.sh("rm -r @TMP@"),
    ]


@kind(kinds, "c-fork-child-exit")
def fork_child_exit(k: Kit) -> list:
    """A forked child must end with os._exit, in a script."""
    code = k.any(0, 3, 7)
    return [
        k.solve(),
        k.py(f"""
            import os
            pid = os.fork()
            if pid == 0:
                try:
                    import @MOD@
                finally:
                    os._exit({code})
            _, status = os.waitpid(pid, 0)
            print('child said', os.waitstatus_to_exitcode(status))
        """),
        k.end(),
    ]


@kind(kinds, "c-signal-handler")
def signal_handler(k: Kit) -> list:
    name = k.any("SIGUSR1", "SIGTERM", "SIGALRM", "SIGHUP")
    return [
        k.write(
            "examples/graceful.py",
            f"""
            \"\"\"Stop a loop on {name}.\"\"\"
            import os
            import signal

            stopped = False


            def stop(number, frame):
                global stopped
                stopped = True


            old = signal.signal(signal.{name}, stop)
            os.kill(os.getpid(), signal.{name})
            while not stopped:
                pass
            signal.signal(signal.{name}, old)
            print("stopped cleanly")
            """,
        ),
        k.run("examples/graceful.py"),
        k.solve(),
        k.sh("rm -r examples/graceful.py; rmdir examples 2>/dev/null || true"),
    ]


@kind(kinds, "c-atexit-app")
def atexit_app(k: Kit) -> list:
    """An example application that flushes its buffer when it ends."""
    return [
        k.solve(),
        k.write(
            "examples/app.py",
            """
            import atexit
            import sys

            import @MOD@ as module

            buffer = []


            @atexit.register
            def flush():
                sys.stdout.write("".join(buffer))


            def main(argv):
                if len(argv) > 1 and argv[1] == "--help":
                    print(__doc__)
                    return 0
                buffer.extend(f"{name}\\n" for name in dir(module)[:3])
                return 0


            if __name__ == "__main__":
                sys.exit(main(sys.argv))
            """,
        ),
        k.run("examples/app.py; echo status $?"),
    ]


@kind(kinds, "c-kill-own-child")
def kill_own_child(k: Kit) -> list:
    return [
        k.py(f"""
            import subprocess, sys
            child = subprocess.Popen([sys.executable, '-c', 'import sys; print(1, flush=True); sys.stdin.read()'],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            print(child.stdout.readline())
            child.{k.any("terminate", "kill")}()
            print(child.wait(timeout=10))
        """),
        k.sh("jobs; ps -o pid,ppid,etime,cmd --ppid $$ | head -5"),
        k.read(),
    ]


@kind(kinds, "c-background-wait")
def background_wait(k: Kit) -> list:
    """Two checks side by side, and waits for both."""
    return [
        k.solve(),
        k.sh("""
            python -m py_compile @FILE@ & first=$!
            (grep -c . @FILE@ > @TMP@.n) & second=$!
            wait $first; echo compile $?
            wait $second; cat @TMP@.n; rm -f @TMP@.n
        """),
        k.check(),
    ]


@kind(kinds, "c-nohup-tests")
def nohup_tests(k: Kit) -> list:
    """Runs the tests in the background into a log and waits for them there and then."""
    return [
        k.solve(),
        k.sh(
            "nohup python -m pytest -q @TEST@ > @TMP@.log 2>&1 & pid=$!; wait $pid; echo rc=$?; tail -n 5 @TMP@.log; rm @TMP@.log"
        ),
        k.end(),
    ]


@kind(kinds, "c-thread-hammer")
def thread_hammer(k: Kit) -> list:
    return [
        k.solve(),
        k.py(f"""
            import threading, importlib
            errors = []
            barrier = threading.Barrier({k.any(4, 6, 8)})
            def work():
                barrier.wait()
                try:
                    module = importlib.import_module('@MOD@')
                    getattr(module, '@TOP@')
                except Exception as error:
                    errors.append(error)
            threads = [threading.Thread(target=work, daemon=True) for _ in range(barrier.parties)]
            [t.start() for t in threads]; [t.join(10) for t in threads]
            print(errors, threading.active_count())
        """),
    ]


@kind(kinds, "c-async-gather")
def async_gather(k: Kit) -> list:
    return [
        k.read(),
        k.py("""
            import asyncio
            async def count(path):
                process = await asyncio.create_subprocess_exec('wc', '-l', path, stdout=asyncio.subprocess.PIPE)
                out, _ = await process.communicate()
                return out.decode().split()[0]
            async def main():
                print(await asyncio.gather(*(count(p) for p in ('@FILE@', '@TEST@'))))
            asyncio.run(main(), debug=True)
        """),
        k.solve(),
    ]


@kind(kinds, "c-queue-worker")
def queue_worker(k: Kit) -> list:
    return [
        k.py("""
            import multiprocessing as mp
            def work(tasks, done):
                for item in iter(tasks.get, None):
                    done.put(item * item)
            if __name__ == '__main__':
                ctx = mp.get_context('fork')
                tasks, done = ctx.Queue(), ctx.Queue()
                worker = ctx.Process(target=work, args=(tasks, done)); worker.start()
                for i in range(4): tasks.put(i)
                tasks.put(None)
                print(sorted(done.get() for _ in range(4))); worker.join(); print(worker.exitcode)
        """),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-zombie-check")
def zombie_check(k: Kit) -> list:
    """After a run that hung up: did I leave anything behind?"""
    return [
        k.solve(),
        k.sh(
            "timeout 90 python -m pytest -q @TEST@ >/dev/null 2>&1; echo rc $?; ps -u $(id -u) -o pid,stat,etimes,args | grep '[p]ytest' || echo 'nothing left'"
        ),
        k.sh("ss -ltn 2>/dev/null | tail -n +2 | wc -l"),
    ]


@kind(kinds, "c-proc-self-status")
def proc_self_status(k: Kit) -> list:
    return [
        k.solve(),
        k.py("""
            import re
            def rss():
                return int(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/self/status').read())[1])
            before = rss()
            import @MOD@
            print('import costs', rss() - before, 'kB')
        """),
        k.sh("grep -E 'MemTotal|MemAvailable' /proc/meminfo; cat /proc/loadavg"),
    ]


@kind(kinds, "c-lock-file")
def lock_file(k: Kit) -> list:
    return [
        k.py(f"""
            import fcntl, os, tempfile
            path = os.path.join(tempfile.gettempdir(), '{k.any("bench", "build", "run")}.lock')
            with open(path, 'w') as first, open(path) as second:
                fcntl.flock(first, fcntl.LOCK_EX)
                try:
                    fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    print('held')
            os.remove(path)
        """),
        k.sh("flock -n @TMP@.lock python -m py_compile @FILE@; rm -f @TMP@.lock"),
        k.solve(),
    ]


@kind(kinds, "c-fifo-tail")
def fifo_tail(k: Kit) -> list:
    return [
        k.solve(),
        k.sh(
            "mkfifo @TMP@.p; (sort -u < @TMP@.p | head -n 5) & grep -oE '\\b[a-z_]{6,}\\b' @FILE@ > @TMP@.p; wait; rm @TMP@.p"
        ),
        k.sh("python -m pytest -q @TEST@ 2>&1 | tee @TMP@.log | grep -E 'passed|failed|error'; rm @TMP@.log"),
    ]


@kind(kinds, "c-pty-colours")
def pty_colours(k: Kit) -> list:
    """Does output differ when it goes to a terminal?"""
    return [
        k.py("""
            import pty, os, sys
            chunks = []
            def read(fd):
                data = os.read(fd, 1024); chunks.append(data); return data
            pty.spawn([sys.executable, '-c', 'import sys; print(sys.stdout.isatty())'], read)
            print(b''.join(chunks))
        """),
        k.solve(),
        k.end(),
    ]


@kind(kinds, "c-dup-redirect")
def dup_redirect(k: Kit) -> list:
    """Catches what C code prints, by duplicating descriptor 1, in a script."""
    return [
        k.write(
            "@TMP@/capture.py",
            """
            import os
            import tempfile
            from contextlib import contextmanager


            @contextmanager
            def captured():
                saved = os.dup(1)
                with tempfile.TemporaryFile() as sink:
                    os.dup2(sink.fileno(), 1)
                    try:
                        yield sink
                    finally:
                        os.dup2(saved, 1)
                        os.close(saved)


            with captured() as sink:
                os.write(1, b"from below\\n")
                sink.seek(0)
                text = sink.read()
            print(text)
            """,
        ),
        k.run("@TMP@/capture.py"),
        k.solve(),
    ]


@kind(kinds, "c-rlimit-child")
def rlimit_child(k: Kit) -> list:
    """A child with a cap on its time, so that a slow loop ends."""
    return [
        k.solve(),
        k.py("""
            import resource, subprocess, sys
            def cap():
                resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
                resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            done = subprocess.run([sys.executable, '-c', 'import @MOD@; print("ok")'], preexec_fn=cap, capture_output=True, text=True)
            print(done.returncode, done.stdout, done.stderr[-300:])
        """),
    ]


@kind(kinds, "c-xargs-parallel")
def xargs_parallel(k: Kit) -> list:
    return [
        k.sh("find @DIR@ -name '*.py' -print0 | xargs -0 -P 2 -n 4 python -m py_compile && echo all parse"),
        k.sh("find . -name '__pycache__' -prune -exec rm -r {} +"),
        k.solve(),
        k.check(),
        k.end(),
    ]


@kind(kinds, "c-localhost-json-api")
def localhost_json_api(k: Kit) -> list:
    return [
        k.solve(),
        k.py("""
            import json, threading, urllib.request
            from http.server import BaseHTTPRequestHandler, HTTPServer
            import @MOD@ as m
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self):
                    body = json.dumps({'names': dir(m)[-3:]}).encode()
                    self.send_response(200); self.end_headers(); self.wfile.write(body)
                def log_message(self, *a): pass
            server = HTTPServer(('127.0.0.1', 0), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            print(json.load(urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/')))
            server.shutdown()
        """),
    ]


KINDS = tuple(kinds)
