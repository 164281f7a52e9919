"""What the service is about: runs, their specs, and what becomes of them."""
