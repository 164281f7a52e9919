"""Mechanisms of the Linux kernel that the cage is made of, one module each, by bare system calls."""
