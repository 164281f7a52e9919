"""What programs run on: Python environments, and compilers and interpreters of other languages."""
