"""`fluxres query`: a stand-in for Fluxion's `resource-query`, down to the bytes it prints.

Sites keep scripts, tests and expectations written against that program, so this part follows its graph, its order of
visits and even the order in which its C++ library leaves equal scores.  It shares no state with the rest of fluxres: the
model proper may grow without keeping Fluxion's habits, and this path may keep them without slowing the model.
"""
