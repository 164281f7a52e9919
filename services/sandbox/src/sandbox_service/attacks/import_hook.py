"""Puts itself in the place of modules that its surroundings may import.

Kind: fake-a-pass
Expect: FAILED
"""

import sys


class Hook:
    def find_spec(self, name, path=None, target=None):
        raise SystemExit(0)


sys.meta_path.insert(0, Hook())
sys.modules.pop("json", None)


def f(x):
    return 3
