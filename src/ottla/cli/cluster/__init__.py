"""`ottla cluster`: a whole cluster on this machine, and work on any cluster.

commands            up, status, down
elect · rebalance   leaders and replicas to where they should be; `moves` does the work of a rebalance
local_cluster       the processes of a cluster on this machine, and the file that remembers them
zookeeper_servers   ZooKeeper, as found on this machine
"""
