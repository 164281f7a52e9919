"""What runs inside the cage: by a bare interpreter, so with the standard library alone and no import of the service.

`enter.py` is exec'd once per lane with a clean environment; `zygote.py` locks itself in (`jail.py`) and then has a
process forked for each program (`job.py`). It never reads a program, its tests or its results into its own memory: a
child inherits that memory by copy, and would find there what other programs left.
"""
