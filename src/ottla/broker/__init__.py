"""One broker: its state, its inputs and its effects. `broker` puts the parts together.

    settings · config · config_entries · listeners   what it is set to
    security · kafka_keys · zookeeper_config         which settings end a start, or have no effect
    storage · moves · offline                        its logs on their disks
    partitions · log_queue · replicas                its partitions, and what happens to them
    fetchers · isr · leadership_proofs               to follow, to propose an ISR, to be sure to lead
    coordinators · groups · transactions · journal   what is stored in internal topics
    controller_seat · controller_writes              the controller
    liveness · own_report · departure · identities   the other brokers
    access · authentication · token_keys · audit     who is on a connection, and what they may do
    quotas · usage                                   what clients may use, and what they do
    parked · long_work · allowance                   answers that wait, long work, and how much at once
    adoption · config_copies                         logs and settings that outlive their keeper

Rules: inputs are method calls with `now_ms`. What is wanted of the world is left in `outbox`. Nothing waits.
"""
