"""What the gateway is about, in plain Python."""
