"""trainer-service: training runs, from the request to the registered version."""
