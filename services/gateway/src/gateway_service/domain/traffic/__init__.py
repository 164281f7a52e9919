"""The request log: what each request got, and how good it was."""
