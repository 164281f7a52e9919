"""The training job: what Ray runs for one attempt of one run. Imports nothing of the service around it."""
