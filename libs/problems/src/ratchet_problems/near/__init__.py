"""Near-duplicates: problems that are the same but for names, words and their order."""
