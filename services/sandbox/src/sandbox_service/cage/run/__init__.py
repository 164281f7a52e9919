"""Runs a program in the process that was forked for it."""
