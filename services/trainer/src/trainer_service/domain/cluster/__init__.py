"""The cluster that runs share: who is next, who makes room, and where jobs run."""
