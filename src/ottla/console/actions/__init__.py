"""What can be changed: one function for each action, for pages and for scripts.

A function takes the view of whoever asks and plain values, blocks until the cluster has answered, and raises
`CommandError` with a sentence if it was refused. One that ends in `_plan` changes nothing: it says what
the deed would do. Who does what is logged by the caller (`Visit.change`).
"""
