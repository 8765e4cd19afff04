"""One broker: its state, its inputs and its effects. `broker` puts the parts together.

    settings · config · configs · listeners      what it is set to
    storage · moves · offline                    its logs on their disks
    partitions · log_queue · replicas            its partitions, and what happens to them
    fetchers · isr · proofs                      to follow, to propose an ISR, to be sure to lead
    coordinators · groups · journal              what is stored in internal topics
    seat · controller_writes                         the controller
    liveness · reports · departure · identities  the other brokers
    parked · slices · allowance                  answers that wait, long work, and how much at once
    adoption · config_copies                     logs and settings that outlive their keeper

Rules: inputs are method calls with `now_ms`. What is wanted of the world is left in `outbox`. Nothing waits.
"""
