"""`fluxres query`: a replacement for Fluxion's `resource-query` with byte-identical output.

Sites have scripts, tests and expectations written for that program. So this part follows its graph, its visiting order and even
the order in which its C++ library leaves equal scores. It shares no state with the rest of fluxres: the model can develop without
keeping Fluxion's habits, and this package can keep them without slowing the model.
"""
