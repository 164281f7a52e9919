"""The process of the job: verl's trainers as runs of Ratchet, their data, and the completions they learn from."""
