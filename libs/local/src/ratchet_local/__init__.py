"""The whole platform on one machine: what `ratchet up`, `status`, `logs` and `down` stand on."""
