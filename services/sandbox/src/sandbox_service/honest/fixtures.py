"""Fixtures of pytest, and the surroundings that tests make."""

from sandbox_service.honest import check

PROGRAM = """
import os
def f(p):
    with open(p) as i: return i.read().upper()
def save(p, s):
    with open(p, 'w') as o: o.write(s)
def env(n): return os.environ.get(n, 'none')
def ls(p): return sorted(os.listdir(p))
def here(): return os.path.basename(os.getcwd())
"""
CASES = (
    check("tmp_path", PROGRAM, 'def test_a(tmp_path):\n    p = tmp_path / "a.txt"\n    p.write_text("hi")\n    assert f(p) == "HI" and f(str(p)) == "HI"\n    assert ls(tmp_path) == ["a.txt"]\n', names=["ls"]),
    check("tmp_path that is written to", PROGRAM, 'def test_a(tmp_path):\n    p = tmp_path / "b.txt"\n    save(p, "hi")\n    assert p.read_text() == "hi"\n', names=["save"]),
    check("tmpdir", PROGRAM, 'def test_a(tmpdir):\n    p = tmpdir.join("b.txt")\n    save(str(p), "hi")\n    assert p.read() == "hi"\n', names=["save"]),
    check("TemporaryDirectory", PROGRAM, "import tempfile, os\nwith tempfile.TemporaryDirectory() as d:\n    save(os.path.join(d, 'x'), 'y')\n    assert open(os.path.join(d, 'x')).read() == 'y' and ls(d) == ['x']\n", names=["save", "ls"]),
    check("mkdtemp in setUp", PROGRAM, "import tempfile, os, unittest, shutil\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.d = tempfile.mkdtemp()\n        self.p = os.path.join(self.d, 'a')\n        with open(self.p, 'w') as o: o.write('abc')\n    def tearDown(self): shutil.rmtree(self.d)\n    def test_a(self):\n        self.assertEqual(f(self.p), 'ABC')\n"),
    check("NamedTemporaryFile", PROGRAM, "import tempfile\nwith tempfile.NamedTemporaryFile('w', suffix='.txt') as t:\n    t.write('abc'); t.flush()\n    assert f(t.name) == 'ABC'\n"),
    check("setenv", PROGRAM, "def test_a(monkeypatch):\n    monkeypatch.setenv('AB', 'yes')\n    assert env('AB') == 'yes'\ndef test_b(monkeypatch):\n    assert env('AB') == 'none'\n", names=["env"]),
    check("os.environ", PROGRAM, "import os\nos.environ['AB'] = 'yes'\nassert env('AB') == 'yes'\n", names=["env"]),
    check("chdir", PROGRAM, "def test_a(tmp_path, monkeypatch):\n    monkeypatch.chdir(tmp_path)\n    save('q.txt', 'v')\n    assert (tmp_path / 'q.txt').read_text() == 'v'\n", names=["save"]),
    check("tmp_path_factory", PROGRAM, "def test_a(tmp_path_factory):\n    d = tmp_path_factory.mktemp('x')\n    save(d / 'a', 'b')\n    assert (d / 'a').read_text() == 'b'\n", names=["save"]),
    check("parametrize beside fixtures", PROGRAM, "import pytest\n@pytest.mark.parametrize('a', ['x', 'y'])\ndef test_a(tmp_path, a, request):\n    save(tmp_path / a, a)\n    assert ls(tmp_path) == [a]\n", names=["save", "ls"]),
    check("fixture with params", PROGRAM, "import pytest\n@pytest.fixture(params=['a', 'b'])\ndef name(request): return request.param\ndef test_a(tmp_path, name):\n    save(tmp_path / name, name)\n    assert ls(tmp_path) == [name]\n", names=["save", "ls"]),
    check("classes in classes", PROGRAM, "class TestOuter:\n    class TestInner:\n        def test_a(self, tmp_path):\n            save(tmp_path / 'z', 'z')\n            assert ls(tmp_path) == ['z']\n", names=["save", "ls"]),
    check("fixture over a fixture", PROGRAM, "import pytest\n@pytest.fixture\ndef path(tmp_path):\n    p = tmp_path / 'a'\n    p.write_text('q')\n    yield p\n    p.unlink()\ndef test_a(path): assert f(path) == 'Q'\n"),
)  # fmt: skip
