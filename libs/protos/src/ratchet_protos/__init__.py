"""Facts that the protos state beside their messages. Written by hand; the stubs in `ratchet` are generated."""
