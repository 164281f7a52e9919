"""Is compiled into code without a bound: each way out of nested blocks repeats what is left to do.

Kind: deny
Expect: FAILED, COMPILE_ERROR, MEMORY_LIMIT, TIME_LIMIT, RUNTIME_ERROR
"""


def g(x):
    try:
        try:
            try:
                try:
                    try:
                        try:
                            if x == 0:
                                return 0
                            if x == 1:
                                return 1
                            if x == 2:
                                return 2
                            if x == 3:
                                return 3
                            if x == 4:
                                return 4
                            if x == 5:
                                return 5
                            if x == 6:
                                return 6
                            if x == 7:
                                return 7
                            if x == 8:
                                return 8
                            if x == 9:
                                return 9
                            if x == 10:
                                return 10
                            if x == 11:
                                return 11
                        finally:
                            x += 1
                    finally:
                        x += 1
                finally:
                    x += 1
            finally:
                x += 1
        finally:
            x += 1
    finally:
        x += 1


def f(x):
    return 3
