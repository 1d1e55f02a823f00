"""How Flux's own resource pools choose ranks and cores."""
