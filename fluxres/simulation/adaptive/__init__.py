"""Jobs that may have several sizes: moldable and malleable ones, and how much faster they run on more units."""
