"""What the rollout service is about, in plain Python: no grpc, no torch, no vLLM."""
