"""Ways to write standard output."""

from sandbox_service.honest import stdio

CASES = (
    stdio("print", "print(1, 2, sep=', ', end='!\\n')\n", "", "1, 2!\n"),
    stdio("print unpacked", "print(*range(5))\n", "", "0 1 2 3 4\n"),
    stdio("sys.stdout.write", "import sys\nsys.stdout.write('a\\n')\nsys.stdout.writelines(['b\\n', 'c\\n'])\n", "", "a\nb\nc\n"),
    stdio("buffer.write", "import sys\nsys.stdout.buffer.write(b'ab\\n')\n", "", "ab\n"),
    stdio("print and buffer in turn", "import sys\nprint('a', flush=True)\nsys.stdout.buffer.write(b'b\\n')\nsys.stdout.flush()\nprint('c')\n", "", "a\nb\nc\n"),
    stdio("os.write", "import os\nos.write(1, b'direct\\n')\n", "", "direct\n"),
    stdio("open 1", "with open(1, 'w', closefd=False) as out:\n    out.write('x\\n')\nprint('y')\n", "", "x\ny\n"),
    stdio("/dev/stdout", "with open('/dev/stdout', 'w') as out:\n    out.write('x\\n')\n", "", "x\n"),
    stdio("/dev/fd/1", "with open('/dev/fd/1', 'w') as out:\n    out.write('x\\n')\n", "", "x\n"),
    stdio("a text wrapper", "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('ñ')\n", "", "ñ\n"),
    stdio("a text wrapper with line buffering", "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, line_buffering=True, write_through=True)\nprint('x')\n", "", "x\n"),
    stdio("a detached buffer", "import sys, io, codecs\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())\nprint('é')\n", "", "é\n"),
    stdio("reconfigured", "import sys\nsys.stdout.reconfigure(encoding='utf-8', line_buffering=True)\nprint('é')\n", "", "é\n"),
    stdio("StringIO flushed at the end", "import sys, io, os\nout = io.StringIO()\nprint('a', file=out)\nprint('b', file=out)\nos.write(1, out.getvalue().encode())\n", "", "a\nb\n"),
    stdio("fast output of templates", """
        import sys, os
        from io import BytesIO, IOBase
        class FastIO(IOBase):
            newlines = 0
            def __init__(self, file):
                self._fd = file.fileno()
                self.buffer = BytesIO()
                self.writable = 'x' in file.mode or 'r' not in file.mode
                self.write = self.buffer.write if self.writable else None
            def read(self):
                while True:
                    b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))
                    if not b:
                        break
                    ptr = self.buffer.tell()
                    self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)
                self.newlines = 0
                return self.buffer.read()
            def readline(self):
                while self.newlines == 0:
                    b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))
                    self.newlines = b.count(b'\\n') + (not b)
                    ptr = self.buffer.tell()
                    self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)
                self.newlines -= 1
                return self.buffer.readline()
            def flush(self):
                if self.writable:
                    os.write(self._fd, self.buffer.getvalue())
                    self.buffer.truncate(0), self.buffer.seek(0)
        class IOWrapper(IOBase):
            def __init__(self, file):
                self.buffer = FastIO(file)
                self.flush = self.buffer.flush
                self.writable = self.buffer.writable
                self.write = lambda s: self.buffer.write(s.encode('ascii'))
                self.read = lambda: self.buffer.read().decode('ascii')
                self.readline = lambda: self.buffer.readline().decode('ascii')
        sys.stdin, sys.stdout = IOWrapper(sys.stdin), IOWrapper(sys.stdout)
        input = lambda: sys.stdin.readline().rstrip('\\r\\n')
        n = int(input())
        sys.stdout.write(str(sum(map(int, input().split()))) + '\\n')
        sys.stdout.flush()
        """, "2\n3 4\n", "7\n"),
    stdio("redirect_stdout", "import io\nfrom contextlib import redirect_stdout\nb = io.StringIO()\nwith redirect_stdout(b):\n    print('hidden')\nprint(b.getvalue().upper())\n", "", "HIDDEN\n"),
    stdio("stdout put back", "import sys, io\nold, sys.stdout = sys.stdout, io.StringIO()\nprint('hidden')\nsys.stdout = old\nprint('shown')\n", "", "shown\n"),
    stdio("sys.__stdout__", "import sys\nprint('x', file=sys.__stdout__)\n", "", "x\n"),
    stdio("dup of stdout", "import os\nd = os.dup(1)\nwith os.fdopen(d, 'w') as out:\n    print('dup', file=out)\n", "", "dup\n"),
    stdio("dup2 and back", "import os, tempfile\nsaved = os.dup(1)\nt = tempfile.TemporaryFile()\nos.dup2(t.fileno(), 1)\nos.system\nos.write(1, b'in file')\nos.dup2(saved, 1)\n"
          "t.seek(0)\nprint(t.read().decode())\n", "", "in file\n"),
    stdio("stdout replaced, and written at exit", "import atexit, io, sys\nsys.stdout = io.StringIO()\n@atexit.register\ndef write():\n    sys.__stdout__.write(sys.stdout.getvalue())\nprint('kept')\n", "", "kept\n"),
    stdio("a stream of its own, flushed by nobody", """
        from sys import stdout
        from io import BytesIO, IOBase
        from os import *
        class FastIO(IOBase):
            def __init__(self, file):
                self.fd, self.buffer = file.fileno(), BytesIO()
                self.write = lambda text: self.buffer.write(text.encode())
            def flush(self):
                write(self.fd, self.buffer.getvalue())
                self.buffer.truncate(0), self.buffer.seek(0)
        class IOWrapper(IOBase):
            def __init__(self, file):
                self.buffer = FastIO(file)
                self.flush, self.write = self.buffer.flush, lambda text: self.buffer.write(text)
        stdout = IOWrapper(stdout)
        def output(answer):
            stdout.write(str(answer) + '\\n')
        for i in range(3):
            output(i)
        """, "", "0\n1\n2\n"),
    stdio("a file that a function which others hold keeps open", "import sys\nout = open('/dev/stdout', 'w')\ndef hook(*args):\n    out.write('never')\nsys.excepthook = hook\nout.write('kept\\n')\n", "", "kept\n"),
    stdio("atexit prints", "import atexit\natexit.register(print, 'last')\nprint('first')\n", "", "first\nlast\n"),
    stdio("exit in the middle", "import sys\nprint('a')\nsys.exit()\nprint('b')\n", "", "a\n"),
    stdio("exit function", "print('a')\nexit(0)\n", "", "a\n"),
    stdio("os._exit after a flush", "import os, sys\nprint('a')\nsys.stdout.flush()\nos._exit(0)\n", "", "a\n"),
    stdio("pprint", "from pprint import pprint\npprint({'b': list(range(3)), 'a': 'x'})\n", "", "{'a': 'x', 'b': [0, 1, 2]}\n"),
    stdio("sixty kilobytes", "for i in range(5000):\n    print(i, 'xxxx')\n", "", "".join(f"{i} xxxx\n" for i in range(5000))),
    stdio("a lot on stderr", "import sys\nprint('e' * 500000, file=sys.stderr)\nprint('ok')\n", "", "ok\n"),
    stdio("logging", "import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.info('to stderr')\nprint('ok')\n", "", "ok\n"),
    stdio("warnings", "import warnings\nwarnings.warn('old')\nprint('ok')\n", "", "ok\n"),
    stdio("progress to stderr", "import sys, time\nfor i in range(3):\n    sys.stderr.write(f'\\r{i}')\n    sys.stderr.flush()\nprint('done')\n", "", "done\n"),
    stdio("main function", "def main():\n    n = int(input())\n    print(n * 2)\n\nif __name__ == '__main__':\n    main()\n", "4\n", "8\n"),
    stdio("thread with a big stack", "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(64 << 20)\ndef g(n):\n    return 0 if not n else 1 + g(n - 1)\n"
          "def main():\n    print(g(30000))\nt = threading.Thread(target=main)\nt.start()\nt.join()\n", "", "30000\n"),
    stdio("thread with a stack of 512 MiB", "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size((512 << 20) - 4096)\ndef g(n):\n    return 0 if not n else 1 + g(n - 1)\n"
          "t = threading.Thread(target=lambda: print(g(50000)))\nt.start()\nt.join()\n", "", "50000\n"),
    stdio("thread that is not joined", "import threading, time\ndef go():\n    time.sleep(0.05)\n    print('late')\nthreading.Thread(target=go).start()\nprint('early')\n", "", "early\nlate\n"),
    stdio("trailing spaces", "for i in range(3):\n    print(i, end=' ')\nprint()\n", "", "0 1 2\n"),
    stdio("mod arithmetic to the letter", "MOD = 998244353\nn = int(input())\nr = 1\nfor i in range(1, n + 1):\n    r = r * i % MOD\nprint(r)\n", "1000\n", "421678599\n"),
    stdio("floats with a format", "print(f'{10 / 3:.6f}', '%.2f' % 2.345, format(1e6, '.1f'))\n", "", "3.333333 2.35 1000000.0\n"),
    stdio("several test cases", "import sys\ndef solve(a, b):\n    return a * b\ndef main():\n    d = list(map(int, sys.stdin.read().split()))\n    t, out = d[0], []\n"
          "    for i in range(t):\n        out.append(str(solve(d[1 + 2 * i], d[2 + 2 * i])))\n    print('\\n'.join(out))\nmain()\n", "2\n3 4\n5 6\n", "12\n30\n"),
)  # fmt: skip
