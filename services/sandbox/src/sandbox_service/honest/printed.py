"""What a program prints, warns of, logs and reads, as tests see it."""

from sandbox_service.honest import check

PROGRAM = """
import sys, warnings, logging
def f(x):
    print("x =", x)
    return x
def err(x):
    print("oops", file=sys.stderr)
def warns(x):
    warnings.warn("old way", DeprecationWarning)
    return x
def user():
    warnings.warn("careful")
def logs(x):
    logging.getLogger("app").warning("got %s", x)
    logging.info("root info")
    return x
log = logging.getLogger(__name__)
def named():
    log.error("bad thing")
def asks():
    name = input("name? ")
    print("hi", name)
    return name
def reads():
    return sum(int(l) for l in sys.stdin)
def gen():
    for i in range(2):
        print("step", i)
        yield i
class Dog:
    def speak(self): print("woof")
def cb(g):
    print("before"); g(); print("after")
def fails():
    print("about to fail"); raise ValueError("no")
def boom():
    warnings.warn("x", RuntimeWarning); print("y"); logging.warning("z")
def sysout():
    sys.stdout.write("raw"); sys.stdout.flush()
"""
CASES = (
    check("redirect_stdout", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    f(3)\nassert out.getvalue() == "x = 3\\n"\n'),
    check("sys.stdout replaced", PROGRAM, 'import io, sys\nold = sys.stdout\nsys.stdout = io.StringIO()\nf(3)\ngot = sys.stdout.getvalue()\nsys.stdout = old\nassert got == "x = 3\\n"\n'),
    check("redirect_stderr", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stderr(out):\n    err(3)\nassert out.getvalue() == "oops\\n"\n', names=["err"]),
    check("patch of sys.stdout", PROGRAM, 'from unittest.mock import patch\nimport io\nwith patch(\'sys.stdout\', new_callable=io.StringIO) as out:\n    f(3)\nassert out.getvalue() == "x = 3\\n"\n'),
    check("capsys", PROGRAM, 'def test_a(capsys):\n    f(3)\n    assert capsys.readouterr().out == "x = 3\\n"\n    out, err_ = capsys.readouterr()\n    assert out == ""\n    err(1)\n    assert capsys.readouterr().err == "oops\\n"\n', names=["err"]),
    check("capfd", PROGRAM, 'def test_a(capfd):\n    f(3)\n    assert capfd.readouterr().out == "x = 3\\n"\n'),
    check("doctest of what is printed", PROGRAM, '"""\n>>> f(3)\nx = 3\n3\n"""\n'),
    check("pytest.warns", PROGRAM, "import pytest\nwith pytest.warns(DeprecationWarning, match='old'):\n    warns(1)\n", names=["warns"]),
    check("pytest.warns with records", PROGRAM, "import pytest\nwith pytest.warns(UserWarning) as rec:\n    user()\nassert len(rec) == 1 and str(rec[0].message) == 'careful'\n", names=["warns", "user"]),
    check("catch_warnings", PROGRAM, 'import warnings\nwith warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter("always")\n    warns(1)\n    assert len(w) == 1 and issubclass(w[0].category, DeprecationWarning) and "old" in str(w[0].message)\n', names=["warns"]),
    check("assertWarns and assertLogs", PROGRAM, 'import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertWarns(DeprecationWarning):\n            warns(1)\n    def test_b(self):\n        with self.assertLogs("app", level="WARNING") as cm:\n            logs(5)\n        self.assertEqual(cm.output, ["WARNING:app:got 5"])\n    def test_c(self):\n        with self.assertLogs(level="INFO") as cm:\n            logs(5)\n        self.assertEqual(len(cm.records), 2)\n', names=["warns", "logs"]),
    check("caplog", PROGRAM, 'import logging\ndef test_a(caplog):\n    with caplog.at_level(logging.INFO):\n        logs(5)\n    assert "got 5" in caplog.text and caplog.records[0].levelname == "WARNING" and "got 5" in caplog.messages\n', names=["logs"]),
    check("warnings as errors", PROGRAM, 'import warnings, pytest\nwith pytest.raises(DeprecationWarning):\n    with warnings.catch_warnings():\n        warnings.simplefilter("error")\n        warns(1)\n', names=["warns"]),
    check("sys.stdin replaced", PROGRAM, 'import sys, io\nsys.stdin = io.StringIO("bob\\n")\nassert asks() == "bob"\n', names=["asks"]),
    check("sys.stdin iterated", PROGRAM, 'import sys, io\nsys.stdin = io.StringIO("1\\n2\\n")\nassert reads() == 3\n', names=["reads"]),
    check("input patched", PROGRAM, "from unittest.mock import patch\nwith patch('builtins.input', return_value='bob'):\n    assert asks() == 'bob'\n", names=["asks"]),
    check("inputs patched", PROGRAM, "from unittest.mock import patch\nwith patch('builtins.input', side_effect=['bob', 'al']):\n    assert asks() == 'bob' and asks() == 'al'\n", names=["asks"]),
    check("monkeypatch of input", PROGRAM, 'def test_a(monkeypatch, capsys):\n    monkeypatch.setattr(\'builtins.input\', lambda _: \'zed\')\n    assert asks() == \'zed\'\n    assert capsys.readouterr().out == "hi zed\\n"\n', names=["asks"]),
    check("monkeypatch of sys.stdin", PROGRAM, "import io\ndef test_a(monkeypatch):\n    monkeypatch.setattr('sys.stdin', io.StringIO('zed\\n'))\n    assert asks() == 'zed'\n", names=["asks"]),
    check("prints of both, in turn", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    for _ in gen(): print("tests")\nassert out.getvalue() == "step 0\\ntests\\nstep 1\\ntests\\n"\n', names=["gen"]),
    check("prints around a callback", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    cb(lambda: print("inside"))\nassert out.getvalue() == "before\\ninside\\nafter\\n"\n', names=["cb"]),
    check("prints of a method", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    Dog().speak()\nassert out.getvalue() == "woof\\n"\n', names=["Dog"]),
    check("prints before an exception", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    try: fails()\n    except ValueError: pass\nassert out.getvalue() == "about to fail\\n"\n', names=["fails"]),
    check("sys.stdout.write", PROGRAM, 'import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    sysout()\nassert out.getvalue() == "raw"\n', names=["sysout"]),
    check("doctest of methods", PROGRAM, '"""\n>>> Dog().speak()\nwoof\n>>> f(1) + 1\nx = 1\n2\n"""\n', names=["Dog"]),
)  # fmt: skip
