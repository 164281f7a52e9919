"""Text that goes to people."""


def clip(text: str, most_bytes: int) -> str:
    """Valid UTF-8 of at most `most_bytes` bytes; "..." at its end says that it was longer."""
    data = text[: most_bytes + 1].encode("utf-8", "replace")
    return data.decode() if len(data) <= most_bytes else data[: most_bytes - 3].decode("utf-8", "ignore") + "..."
