"""A run's policy in rollout-service: loading, weights, generation, its deadlines and its seeds."""
