"""`ottla configs`: what topics and brokers are set to."""
