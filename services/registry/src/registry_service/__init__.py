"""registry-service: what models exist, where each version came from, and who was in production when."""
