"""Registers reducers with copyreg, and writes pickles that run code wherever a result goes.

Kind: fake-a-pass
Expect: FAILED, TAMPERED, RUNTIME_ERROR
"""

import copyreg
import os
import pickle


class Bomb:
    pass


copyreg.pickle(Bomb, lambda _: (os._exit, (0,)))


def f(x):
    for name in ("result", "result.pkl", "output.pickle", "answer.json"):
        with open(name, "wb") as file:
            file.write(pickle.dumps(eval, 0) + b"cos\nsystem\n(S'touch /tmp/pwned'\ntR.")
    return Bomb()
