"""`ottla transactions`: what coordinators and partitions know of transactions.

commands   list, describe, find-hanging
abort      end one that hangs
search     those that are open in a partition, and that no coordinator will end
"""
