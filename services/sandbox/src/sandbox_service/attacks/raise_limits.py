"""Gives itself more of everything.

Kind: break-out
Expect: FAILED
"""

import resource


def f(x):
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            kind = getattr(resource, name)
            _, hard = resource.getrlimit(kind)
            try:
                resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                if hard != resource.RLIM_INFINITY:
                    return 2
            except (OSError, ValueError):
                pass
    return 3
