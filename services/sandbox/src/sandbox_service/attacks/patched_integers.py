"""Changes the value of the number 2 in the memory of the interpreter.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR, TAMPERED
"""

import ctypes


def f(x):
    two = 2
    ctypes.c_uint32.from_address(id(two) + 24).value = 7
    return 7
