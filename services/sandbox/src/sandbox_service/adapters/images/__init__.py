"""Images that a node is given as files: read (archive.py), unpacked once (unpack.py), shared and tidied up (store.py)."""
