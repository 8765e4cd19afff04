"""`ottla acls`: `commands` and `selection` (options to ACLs and filters)."""
