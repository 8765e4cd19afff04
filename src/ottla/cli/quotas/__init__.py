"""`ottla quotas`: `commands`."""
