"""rollout-service: policies served with vLLM behind gRPC."""
