"""CTest: resource groups, resource specification files, and how it allocates slots."""
