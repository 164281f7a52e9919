"""eval-service: measures versions on problem sets, and compares them."""
