"""What the ports of the domain are made of: lanes, languages, stores of batches, a meter."""
