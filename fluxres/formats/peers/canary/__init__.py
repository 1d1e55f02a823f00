"""canary: its language, its resource pools, and how it checks resources out."""
