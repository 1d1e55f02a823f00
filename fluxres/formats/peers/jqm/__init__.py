"""JQM: resource managers, the nodes that have them, and what they answer."""
