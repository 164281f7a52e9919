"""numpy: arrays and scalars that are passed, returned and compared."""

from functools import partial

from sandbox_service import honest

call, check, stdio = (partial(make, runtime="numpy") for make in (honest.call, honest.check, honest.stdio))
NP = "import numpy as np\n"
CASES = (
    call("array for a list", NP + "def f(n):\n    return np.arange(n)\n", ((3,), [0, 1, 2])),
    call("floats", NP + "def f(x):\n    return np.array(x) / 3\n", (([1, 2],), [0.333333333, 0.666666667])),
    call("two dimensions", NP + "def f():\n    return np.eye(2, dtype=int)\n", ((), [[1, 0], [0, 1]])),
    call("int64", NP + "def f(x):\n    return np.array(x).sum()\n", (([1, 2],), 3)),
    call("float32", NP + "def f():\n    return np.float32(0.5)\n", ((), 0.5)),
    call("bool_", NP + "def f(x):\n    return np.all(np.array(x) > 0)\n", (([1, 2],), True)),
    call("nan", NP + "def f():\n    return np.array([1.0, np.nan])\n", ((), [1.0, float("nan")])),
    call("scalars in a list", NP + "def f(x):\n    return [np.max(x), np.int32(2)]\n", (([1, 5],), [5, 2])),
    call("scalars as keys", NP + "def f(x):\n    u, n = np.unique(x, return_counts=True)\n    return dict(zip(u, n))\n", (([1, 1, 2],), {1: 2, 2: 1})),
    call("arrays in a tuple", NP + "def f(x):\n    return np.sort(x), np.argsort(x)\n", (([3, 1],), ([1, 3], [1, 0]))),
    call("tolist", NP + "def f(x):\n    return np.cumsum(x).tolist()\n", (([1, 2, 3],), [1, 3, 6])),
    call("linear algebra", NP + "def f(a, b):\n    return np.linalg.solve(a, b)\n", (([[2, 0], [0, 4]], [2, 4]), [1.0, 1.0])),
    call("seeded generator", NP + "def f():\n    return np.random.default_rng(0).integers(0, 10, 3)\n", ((), [8, 6, 5])),
    call("masks and broadcasting", NP + "def f(x):\n    a = np.array(x)\n    a[a % 2 == 0] *= 10\n    return a[:, None] + a[None, :]\n", (([1, 2],), [[2, 21], [21, 40]])),
    call("strings", NP + "def f(x):\n    return np.char.upper(x)\n", ((["a", "b"],), ["A", "B"])),
    check("arrays compared", NP + "def f(x):\n    return np.asarray(x) * 2\n", NP + "assert (f([1, 2]) == np.array([2, 4])).all()\nassert np.array_equal(f([1]), [2])\n"),
    check("allclose", NP + "def f(x):\n    return np.asarray(x) / 3\n", NP + "assert np.allclose(f([1.0]), [1 / 3])\nnp.testing.assert_allclose(f([3.0]), [1.0])\n"),
    check("an array is passed", NP + "def f(a):\n    return a.mean(axis=0)\n", NP + "assert np.allclose(f(np.array([[1.0, 2.0], [3.0, 4.0]])), [2, 3])\n"),
    check("shape and type", NP + "def f(n):\n    return np.zeros((n, 2), dtype=np.float32)\n", NP + "a = f(3)\nassert a.shape == (3, 2)\nassert a.dtype == np.float32\nassert isinstance(a, np.ndarray)\n"),
    check("an array in place", NP + "def f(a):\n    a *= 2\n", NP + "a = np.array([1, 2])\nf(a)\nassert a.tolist() == [2, 4]\n"),
    check("scalar type", NP + "def f(x):\n    return np.float64(x)\n", NP + "assert isinstance(f(1), float)\nassert isinstance(f(1), np.floating)\n"),
    check("a large array", NP + "def f(n):\n    return np.arange(n)\n", NP + "a = f(200_000)\nassert a.sum() == 19999900000\n"),
    check("structured", NP + "def f():\n    return np.array([(1, 2.0)], dtype=[('a', int), ('b', float)])\n", NP + "assert f()['a'][0] == 1\n"),
    check("a generator of numpy is passed", NP + "def f(rng):\n    return rng.integers(0, 10, 3).tolist()\n", NP + "assert f(np.random.default_rng(0)) == [8, 6, 5]\n"),
    stdio("read and printed", NP + "n, m = map(int, input().split())\na = np.array([input().split() for _ in range(n)], int)\nprint(a.sum(), *a.max(axis=0))\n", "2 2\n1 5\n7 2\n", "15 7 5\n"),
    stdio("loadtxt of stdin", NP + "import sys\na = np.loadtxt(sys.stdin)\nprint(int(a.sum()))\n", "1 2\n3 4\n", "10\n"),
    check("empty rows", NP + "def f(a, least):\n    return a[a[:, 0] > least]\n", NP + "a = np.array([[1, 2], [3, 4]])\nassert np.array_equal(f(a, 2), [[3, 4]])\nassert f(a, 9).shape == (0, 2)\nassert not (f(a, 9) > 0).any()\nassert not (f(a, 0) != a).any()\nassert np.linalg.norm(f(a, 0) - a) == 0\n"),
    check("an empty cluster", NP + "def f(x):\n    return np.array([0, 0]), x[:1]\n", NP + "x = np.array([[1.0, 1.0], [1.0, 1.0]])\nlabels, centers = f(x)\nassert sum(((x[labels == k] - centers[0]) ** 2).sum() for k in range(2)) == 0\n"),
    check("a range and a deque", NP + "from collections import deque\ndef f(n):\n    return deque(range(n))\n", NP + "assert np.allclose(f(2), [0, 1])\nassert np.array_equal(f(0), [])\nnp.testing.assert_array_equal(f(1), [0])\n"),
)  # fmt: skip
