"""The cluster's shape: what topics, partitions, brokers and configs there are, and how they change.

`keeper` is the port to coordination (a tree of versioned nodes), `znodes` the layout of that tree, `image`
what a broker knows of it, `topics` and `placement` the decisions. A decision is a list of keeper
operations, conditional on what it was based on; nothing here changes the image but `Image.apply`, which
every broker runs on every change.
"""
