"""What decisions and other work of an instance cost in simulated time."""
