"""What several test rooms share: one of each."""
