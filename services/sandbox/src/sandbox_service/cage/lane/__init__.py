"""A lane's own processes: how it begins and locks itself in, what it forks programs from, how it watches over them."""
