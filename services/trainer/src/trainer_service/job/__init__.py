"""What a training job is made of, whatever trains it: below `verl/`. Imports nothing of the service around it."""
