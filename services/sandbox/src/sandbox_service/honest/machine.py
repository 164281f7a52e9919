"""An ordinary machine: folders, clocks, threads, processes, devices, and the library that uses them."""

from sandbox_service.honest import call, stdio

CASES = (
    call("files", "def f(x):\n    with open('a.txt', 'w') as out:\n        out.write(x)\n    return open('a.txt').read()\n", (("hi",), "hi")),
    call("folders", "import os, shutil\ndef f():\n    os.makedirs('a/b/c')\n    open('a/b/c/d', 'w').close()\n    found = [n for _, _, names in os.walk('a') for n in names]\n"
         "    shutil.rmtree('a')\n    return found, os.path.exists('a')\n", ((), (["d"], False))),
    call("pathlib and glob", "from pathlib import Path\nimport glob\ndef f():\n    p = Path('x')\n    p.mkdir(exist_ok=True)\n    (p / 'a.txt').write_text('1')\n"
         "    return [q.name for q in p.glob('*.txt')], glob.glob('x/*')\n", ((), (["a.txt"], ["x/a.txt"]))),
    call("tempfile", "import tempfile, os\ndef f():\n    with tempfile.NamedTemporaryFile('w+') as t, tempfile.TemporaryDirectory() as d:\n        t.write('abc')\n        t.seek(0)\n"
         "        open(os.path.join(d, 'x'), 'w').close()\n        return t.read(), os.listdir(d)\n", ((), ("abc", ["x"]))),
    call("home and user", "import os, getpass\ndef f():\n    return bool(getpass.getuser()), os.path.isdir(os.path.expanduser('~')), os.getcwd() == os.path.realpath('.')\n",
         ((), (True, True, True))),
    call("user of the password file", "import pwd, os\ndef f():\n    return bool(pwd.getpwuid(os.getuid()).pw_name)\n", ((), True)),
    call("platform", "import platform, sys, os\ndef f():\n    return platform.system(), sys.platform, os.name, sys.version_info >= (3, 11), sys.byteorder\n",
         ((), ("Linux", "linux", "posix", True, "little"))),
    call("cpu count", "import os, multiprocessing\ndef f():\n    return os.cpu_count() >= 1, multiprocessing.cpu_count() >= 1, len(os.sched_getaffinity(0)) >= 1\n", ((), (True, True, True))),
    call("clocks", "import time\ndef f():\n    a, b, c = time.time(), time.perf_counter(), time.monotonic_ns()\n    time.sleep(0.01)\n"
         "    return time.time() > a > 1.6e9, time.perf_counter() - b >= 0.01, time.monotonic_ns() > c, time.process_time() >= 0\n", ((), (True, True, True, True))),
    call("datetime now", "from datetime import datetime, timezone\ndef f():\n    return datetime.now().year >= 2024, datetime.now(timezone.utc).tzname()\n", ((), (True, "UTC"))),
    call("strftime and locale", "import locale, time\ndef f():\n    locale.setlocale(locale.LC_ALL, '')\n    return time.strftime('%Y-%m-%d', time.gmtime(0))\n", ((), "1970-01-01")),
    call("random", "import random, secrets, uuid, os\ndef f():\n    return 0 <= random.random() < 1, len(secrets.token_hex(8)), len(str(uuid.uuid4())), len(os.urandom(4))\n",
         ((), (True, 16, 36, 4))),
    call("sample and shuffle", "import random\ndef f(x):\n    y = x[:]\n    random.shuffle(y)\n    return sorted(y) == x, len(random.sample(x, 2))\n", (([1, 2, 3],), (True, 2))),
    call("hashing", "import hashlib, hmac, zlib, base64, binascii\ndef f(s):\n    b = s.encode()\n    return hashlib.sha256(b).hexdigest()[:8], zlib.crc32(b), base64.b64encode(b), hmac.new(b, b, 'md5').hexdigest()[:4]\n",
         (("abc",), ("ba7816bf", 891568578, b"YWJj", "f71c"))),
    call("hash seeds do not matter", "def f(words):\n    return sorted(set(words))\n", ((["b", "a", "b"],), ["a", "b"])),
    call("compression", "import gzip, bz2, lzma, zlib\ndef f(b):\n    return all(m.decompress(m.compress(b)) == b for m in (gzip, bz2, lzma, zlib))\n", ((b"ab" * 1000,), True)),
    call("zip and tar in memory", "import io, zipfile, tarfile\ndef f():\n    b = io.BytesIO()\n    with zipfile.ZipFile(b, 'w') as z:\n        z.writestr('a', 'x')\n"
         "    return zipfile.ZipFile(b).read('a')\n", ((), b"x")),
    call("json", "import json\ndef f(x):\n    return json.loads(json.dumps(x, sort_keys=True, indent=1)), json.dumps({'é': None}, ensure_ascii=False)\n",
         (({"a": [1, 2.5, None, True]},), ({"a": [1, 2.5, None, True]}, '{"é": null}'))),
    call("csv", "import csv, io\ndef f(s):\n    return list(csv.reader(io.StringIO(s)))\n", (('a,"b,c"\n1,2\n',), [["a", "b,c"], ["1", "2"]])),
    call("configparser and argparse", "import configparser, argparse\ndef f():\n    c = configparser.ConfigParser()\n    c.read_string('[a]\\nb = 1')\n    p = argparse.ArgumentParser()\n"
         "    p.add_argument('-n', type=int)\n    return c['a'].getint('b'), p.parse_args(['-n', '3']).n\n", ((), (1, 3))),
    call("sqlite in memory", "import sqlite3\ndef f(rows):\n    c = sqlite3.connect(':memory:')\n    c.execute('create table t (a int, b text)')\n    c.executemany('insert into t values (?, ?)', rows)\n"
         "    return c.execute('select sum(a), group_concat(b) from t').fetchone()\n", (([(1, "x"), (2, "y")],), (3, "x,y"))),
    call("sqlite in a file", "import sqlite3\ndef f():\n    with sqlite3.connect('t.db') as c:\n        c.execute('create table t (a)')\n        c.execute('insert into t values (1)')\n"
         "    return sqlite3.connect('t.db').execute('select * from t').fetchall()\n", ((), [(1,)])),
    call("xml and html", "import xml.etree.ElementTree as E, html\ndef f():\n    return E.fromstring('<a><b c=\"1\">t</b></a>').find('b').attrib, html.escape('<')\n", ((), ({"c": "1"}, "&lt;"))),
    call("struct and ctypes", "import struct, ctypes\ndef f():\n    return struct.unpack('<IH', struct.pack('<IH', 1, 2)), ctypes.c_int8(200).value, ctypes.sizeof(ctypes.c_long)\n", ((), ((1, 2), -56, 8))),
    call("the C library", "import ctypes, ctypes.util\ndef f():\n    return ctypes.CDLL(None).abs(-5)\n", ((), 5)),
    call("threads", "import threading\ndef f(n):\n    total, lock = [0], threading.Lock()\n    def go():\n        for _ in range(100):\n            with lock:\n                total[0] += 1\n"
         "    ts = [threading.Thread(target=go) for _ in range(n)]\n    [t.start() for t in ts]\n    [t.join() for t in ts]\n    return total[0]\n", ((8,), 800)),
    call("thread pool", "from concurrent.futures import ThreadPoolExecutor, as_completed\ndef f(xs):\n    with ThreadPoolExecutor(4) as p:\n"
         "        a = list(p.map(lambda x: x * x, xs))\n        b = sorted(r.result() for r in as_completed([p.submit(pow, x, 3) for x in xs]))\n    return a, b\n", (([1, 2, 3],), ([1, 4, 9], [1, 8, 27]))),
    call("multiprocessing.pool.ThreadPool", "from multiprocessing.pool import ThreadPool\ndef f(xs):\n    with ThreadPool(2) as p:\n        return p.map(str, xs)\n", (([1, 2],), ["1", "2"])),
    call("multiprocessing.dummy", "from multiprocessing.dummy import Pool\ndef f(xs):\n    with Pool(2) as p:\n        return p.map(abs, xs)\n", (([-1, 2],), [1, 2])),
    call("queues, events and timers", "import threading, queue\ndef f():\n    q, e = queue.Queue(), threading.Event()\n    t = threading.Timer(0.01, lambda: (q.put(1), e.set()))\n    t.start()\n"
         "    e.wait(5)\n    t.join()\n    return q.get(timeout=5)\n", ((), 1)),
    call("barriers and semaphores", "import threading\ndef f():\n    b, s, out = threading.Barrier(3), threading.BoundedSemaphore(1), []\n    def go(i):\n        b.wait(5)\n        with s:\n            out.append(i)\n"
         "    ts = [threading.Thread(target=go, args=(i,)) for i in range(3)]\n    [t.start() for t in ts]\n    [t.join() for t in ts]\n    return sorted(out)\n", ((), [0, 1, 2])),
    call("asyncio with many tasks", "import asyncio\nasync def g(i):\n    await asyncio.sleep(0.01)\n    return i\ndef f(n):\n    async def main():\n        async with asyncio.timeout(5):\n"
         "            return sum(await asyncio.gather(*(g(i) for i in range(n))))\n    return asyncio.run(main())\n", ((50,), 1225)),
    call("asyncio queues and to_thread", "import asyncio\nasync def main():\n    q = asyncio.Queue()\n    async def put():\n        for i in range(3):\n            await q.put(i)\n    t = asyncio.create_task(put())\n"
         "    got = [await q.get() for _ in range(3)]\n    await t\n    return got, await asyncio.to_thread(sum, [1, 2])\ndef f():\n    return asyncio.run(main())\n", ((), ([0, 1, 2], 3))),
    call("get_event_loop", "import asyncio\nasync def g():\n    return 5\ndef f():\n    loop = asyncio.new_event_loop()\n    try:\n        return loop.run_until_complete(g())\n    finally:\n        loop.close()\n", ((), 5)),
    call("pipes and socket pairs", "import os, socket\ndef f():\n    r, w = os.pipe()\n    os.write(w, b'a')\n    a, b = socket.socketpair()\n    a.send(b'b')\n    return os.read(r, 1) + b.recv(1)\n", ((), b"ab")),
    call("signals", "import signal, time\nhit = []\ndef f():\n    signal.signal(signal.SIGALRM, lambda *_: hit.append(1))\n    signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
         "    end = time.time() + 5\n    while not hit and time.time() < end:\n        time.sleep(0.01)\n    return hit\n", ((), [1])),
    call("alarm as a timeout", "import signal\nclass Late(Exception): pass\ndef h(*_): raise Late\ndef f():\n    signal.signal(signal.SIGALRM, h)\n    signal.setitimer(signal.ITIMER_REAL, 0.02)\n    try:\n"
         "        n = 0\n        while True: n += 1\n    except Late:\n        return 'late'\n    finally:\n        signal.setitimer(signal.ITIMER_REAL, 0)\n", ((), "late")),
    call("raise_signal", "import signal, os\ndef f():\n    got = []\n    signal.signal(signal.SIGUSR1, lambda n, _: got.append(n))\n    os.kill(os.getpid(), signal.SIGUSR1)\n    return got == [signal.SIGUSR1]\n", ((), True)),
    call("resource limits", "import resource\ndef f():\n    s, h = resource.getrlimit(resource.RLIMIT_STACK)\n    resource.setrlimit(resource.RLIMIT_STACK, (min(s, 1 << 20) if s > 0 else 1 << 20, h))\n"
         "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0\n", ((), True)),
    call("nice and affinity", "import os\ndef f():\n    return os.nice(0) >= 0, os.getpriority(os.PRIO_PROCESS, 0) >= 0\n", ((), (True, True))),
    call("anonymous memory", "import mmap\ndef f():\n    m = mmap.mmap(-1, 1 << 16)\n    m[:3] = b'abc'\n    return m[:3]\n", ((), b"abc")),
    call("file mapped", "import mmap\ndef f():\n    with open('m', 'wb') as o:\n        o.write(b'x' * 4096)\n    with open('m', 'r+b') as o, mmap.mmap(o.fileno(), 0) as m:\n        m[0:1] = b'y'\n"
         "        m.flush()\n    return open('m', 'rb').read(2)\n", ((), b"yx")),
    call("os devices", "import os\ndef f():\n    open('/dev/null', 'w').write('x')\n    return open('/dev/zero', 'rb').read(2), len(open('/dev/urandom', 'rb').read(3)), os.devnull\n", ((), (b"\0\0", 3, "/dev/null"))),
    call("environment", "import os\ndef f():\n    os.environ['A'] = '1'\n    return os.environ['A'], 'PATH' in os.environ, os.getenv('NOPE', 'd')\n", ((), ("1", True, "d"))),
    call("own process", "import os\ndef f():\n    return os.getpid() > 0, os.getppid() >= 0, os.getpid() == os.getpid()\n", ((), (True, True, True))),
    call("tracemalloc and gc", "import tracemalloc, gc\ndef f():\n    tracemalloc.start()\n    x = [0] * 10000\n    now, _ = tracemalloc.get_traced_memory()\n    tracemalloc.stop()\n    return now > 10000, gc.collect() >= 0\n", ((), (True, True))),
    call("timeit and cProfile", "import timeit, cProfile, pstats, io\ndef f():\n    p = cProfile.Profile()\n    p.enable()\n    sum(range(100))\n    p.disable()\n    s = io.StringIO()\n    pstats.Stats(p, stream=s).print_stats()\n"
         "    return timeit.timeit('1 + 1', number=10) > 0, 'function calls' in s.getvalue()\n", ((), (True, True))),
    call("decimal precision", "from decimal import Decimal, getcontext, localcontext\ndef f():\n    getcontext().prec = 30\n    return str(Decimal(1) / 7)\n", ((), "0.142857142857142857142857142857")),
    call("unittest of its own", "import unittest, io\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 1)\ndef f():\n"
         "    r = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))\n    return r.testsRun, r.wasSuccessful()\n", ((), (1, True))),
    call("traceback and logging", "import traceback, logging, io\ndef f():\n    s = io.StringIO()\n    logging.getLogger('a').addHandler(logging.StreamHandler(s))\n    logging.getLogger('a').error('bad')\n    try:\n        1 / 0\n"
         "    except ZeroDivisionError:\n        t = traceback.format_exc()\n    return s.getvalue(), 'ZeroDivisionError' in t\n", ((), ("bad\n", True))),
    call("import of an own module", "import sys\ndef f():\n    open('helper.py', 'w').write('def g():\\n    return 7\\n')\n    sys.path.insert(0, '.')\n    import importlib\n    importlib.invalidate_caches()\n"
         "    import helper\n    return helper.g()\n", ((), 7)),
    call("subprocess", "import subprocess, sys\ndef f():\n    return subprocess.run([sys.executable, '-c', 'print(1 + 1)'], capture_output=True, text=True, check=True).stdout\n", ((), "2\n"), processes=True),
    call("shell", "import subprocess, os\ndef f():\n    return subprocess.check_output('echo hi | tr a-z A-Z', shell=True, text=True), os.popen('echo a').read(), os.system('true')\n", ((), ("HI\n", "a\n", 0)), processes=True),
    call("multiprocessing pool", "import multiprocessing\ndef g(x):\n    return x * x\ndef f(xs):\n    with multiprocessing.get_context('fork').Pool(2) as p:\n        return p.map(g, xs)\n", (([1, 2, 3],), [1, 4, 9]), processes=True),
    call("process and queue", "import multiprocessing as m\ndef g(q):\n    q.put(5)\ndef f():\n    c = m.get_context('fork')\n    q = c.Queue()\n    p = c.Process(target=g, args=(q,))\n    p.start()\n    r = q.get(timeout=20)\n"
         "    p.join()\n    return r, p.exitcode\n", ((), (5, 0)), processes=True),
    call("shared value and lock", "import multiprocessing as m\ndef g(v):\n    for _ in range(50):\n        with v.get_lock():\n            v.value += 1\ndef f():\n    c = m.get_context('fork')\n    v = c.Value('i', 0)\n"
         "    ps = [c.Process(target=g, args=(v,)) for _ in range(2)]\n    [p.start() for p in ps]\n    [p.join() for p in ps]\n    return v.value\n", ((), 100), processes=True),
    call("shared memory", "from multiprocessing import shared_memory\ndef f():\n    s = shared_memory.SharedMemory(create=True, size=10)\n    try:\n        s.buf[0] = 7\n        t = shared_memory.SharedMemory(s.name)\n"
         "        r = t.buf[0]\n        t.close()\n        return r\n    finally:\n        s.close()\n        s.unlink()\n", ((), 7), processes=True),
    call("process pool executor", "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing\ndef g(x):\n    return x + 1\ndef f(xs):\n"
         "    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork')) as p:\n        return list(p.map(g, xs))\n", (([1, 2],), [2, 3]), processes=True),
    call("fork and wait", "import os\ndef f():\n    r, w = os.pipe()\n    p = os.fork()\n    if p == 0:\n        os.write(w, b'kid')\n        os._exit(3)\n    return os.read(r, 3), os.waitstatus_to_exitcode(os.waitpid(p, 0)[1])\n", ((), (b"kid", 3)), processes=True),
    stdio("files that were given", "print(open('data/in.csv').read().split(',')[1])\n", "", "b\n", files=[{"name": "data/in.csv", "content": b"a,b"}]),
    stdio("sleeps a little", "import time\ntime.sleep(0.3)\nprint('woke')\n", "", "woke\n"),
    stdio("computes for half a second", "import time\nend = time.process_time() + 0.4\nn = 0\nwhile time.process_time() < end:\n    n += 1\nprint(n > 0)\n", "", "True\n"),
    stdio("a hundred megabytes", "x = bytearray(100 << 20)\nx[::4096] = b'y' * len(x[::4096])\nprint(len(x))\n", "", "104857600\n"),
    stdio("argv", "import sys\nprint(len(sys.argv), bool(sys.argv[0]))\n", "", "1 True\n"),
    stdio("cwd and a file of its own", "import os\nopen('out.txt', 'w').write('7')\nprint(os.path.getsize('out.txt'), os.listdir('.') != [])\n", "", "1 True\n"),
    stdio("turtle-free help", "import keyword, builtins\nprint(len(keyword.kwlist) > 30, 'print' in dir(builtins))\n", "", "True True\n"),
)  # fmt: skip
