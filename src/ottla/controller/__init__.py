"""The cluster's shape: what topics, partitions, brokers and configs there are, and how they change.

`keeper` is the port to coordination (a tree of versioned nodes), `tree` such a tree in memory, `znodes` its
layout (`acl_nodes` and `user_nodes` for ACLs, credentials and quotas), `image` what a broker knows of it.
`topics` and `placement` decide about topics, which any broker may; `election`, `isr`, `reassignment` and
`plan` about leaders and in-sync replicas, which only the controller may, all on a `draft`. `reachability`
says who reaches whom, `registration` how a broker, and the controller, take their place. A decision ends as a
list of keeper operations, conditional on what it was based on; nothing here changes the image but
`Image.apply`, which every broker runs on every change.
"""
