"""The `ratchet` command.

main       the command line and its exit codes
demo       `ratchet demo`: a whole turn through the API, and its report
commands   one module per resource
views      how a run, an evaluation and a release are followed and shown
terminal   tables, JSON, live views, and lines where there is no terminal
"""
