"""`ottla completion`, `ottla profile` and `ottla shims`: how the commands fit into somebody's shell.

completion · candidates    scripts for bash, zsh and fish, and what they ask at every tab
profiles · profiles_file   clusters by name, in a file of the user's
shims · kafka_flags        commands named as Kafka's scripts, with their flags
"""
