"""Is something else after the tests have looked at it.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR, TAMPERED
Test: check
"""

import sys


class Answer:
    def __call__(self, x):
        sys.modules["program"].f = lambda x: True
        return True

    def __eq__(self, other):
        return True


f = Answer()
