"""`fluxres query`: a replacement for Fluxion's `resource-query` with byte-identical output.

Sites have scripts and tests written for that program. So this package reproduces its graph, its visiting order and even the order
in which its C++ library leaves equal scores. It shares no state with the rest of fluxres, so that the model need not follow
Fluxion's behaviour, and this package can without slowing the model.
"""
