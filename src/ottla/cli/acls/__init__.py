"""`ottla acls`: `commands`, `selection` (options to ACLs and filters) and `acl_requests` to brokers."""
