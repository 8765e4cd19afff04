"""What is known of a cluster, as one user may see it.

    view       the port: everything that pages read, each answer kept for a moment
    snapshot   brokers, topics and partitions at one time
    sampler    measures beside the pages, again and again; `measurement` is what, `history` how it was
    offsets · log_dirs · settings · reassignments
    kept       answers that are kept for a moment, and asked for once

Everything here blocks, and is safe in several threads. What a broker refuses or does not answer is a
`CommandError`: one sentence for the page.
"""
