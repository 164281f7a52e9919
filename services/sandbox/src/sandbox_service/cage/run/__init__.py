"""What a forked process does with a program."""
