"""Images that a node is given as files: read (archive.py), unpacked once (unpack.py), shared and removed (store.py)."""
