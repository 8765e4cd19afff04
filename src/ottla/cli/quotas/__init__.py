"""`ottla quotas`: `commands`, and `quota_requests` to brokers."""
