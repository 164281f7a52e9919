"""Objects between two processes: a program's as its tests see them, and those of the tests as the program does."""
