"""The domain's ports for real (SQL, Redis, Ray, gRPC, fsspec), and in memory for unit tests."""
