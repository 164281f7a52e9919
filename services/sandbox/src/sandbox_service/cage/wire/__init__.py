"""How the cage's processes speak with the service and with one another, and the forms of values."""
