"""What may take long (judging large answers, reading large test code) is done in a process with limits of its own."""
