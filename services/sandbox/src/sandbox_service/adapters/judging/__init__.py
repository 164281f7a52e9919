"""Much that a program answered is read and judged in a process with limits of its own."""
