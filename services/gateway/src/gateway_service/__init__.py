"""The door of Ratchet: completions routed by release, REST and gRPC, API keys, releases, feedback."""
