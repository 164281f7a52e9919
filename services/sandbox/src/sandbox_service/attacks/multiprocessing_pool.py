"""Makes processes by the means of the library.

Kind: break-out
Expect: RUNTIME_ERROR, FAILED
Profile: strict
"""

import multiprocessing


def work(queue):
    queue.put(2)


def f(x):
    queue = multiprocessing.Queue()
    multiprocessing.Process(target=work, args=(queue,)).start()
    return queue.get(timeout=1)
