"""Real processes: ZooKeeper from PySpark's jars, brokers of this tree, clients that check what they see."""
