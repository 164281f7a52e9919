"""What the protos say beside their messages. Written by hand; the stubs next to it (`ratchet`) are generated."""
