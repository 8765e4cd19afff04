"""Administration of a cluster: what `ottla`'s commands and the console both ask and change.

    requests          requests that confluent-kafka does not have, through our own client
    configs           configs of topics and brokers
    groups            groups with members, offsets and lag
    group_reset       moving what a group has committed
    users · acls · quotas · features
    broker_metrics    what brokers measure of themselves
    refusals          what brokers refuse, with the remedy

Everything blocks. What a broker refuses is a `CommandError`, one sentence for a person.
"""
