"""Messages between the service and the processes of the cage, and the forms that values have in them."""
