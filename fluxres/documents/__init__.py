"""Documents: bytes of a file → text → values, and the values converted by msgspec, with the place of whatever is wrong.

Every language and every format that is written as YAML or JSON is read through here.  Nothing here knows a machine or a request.
"""
