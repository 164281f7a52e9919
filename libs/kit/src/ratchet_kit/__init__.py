"""What every service starts from: errors, settings, logs, gRPC server and client, queues, SQL, metrics and traces.

Import the module that you need (`from ratchet_kit import errors, streams`): `ratchet_kit.sql`, `ratchet_kit.streams`,
`ratchet_kit.embedded` and `ratchet_kit.redaction` need the extras `sql`, `redis`, `embedded` and `redaction`, and
nothing else here imports them.
"""
