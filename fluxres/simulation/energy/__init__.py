"""What nodes draw, when they are switched off and on, and what all of them may draw."""
