"""One file per API: its request and its response, one class each for all versions.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
The classes are declared with `ottla.wire.schema`, which explains the marks. Import the file of
the API that you handle: this package imports none of them, so a start pays for what it uses.
"""

from typing import Final

FLEXIBLE_SINCE: Final[dict[int, int | None]] = {
    0: 9,  # produce
    1: 12,  # fetch
    2: 6,  # list_offsets
    3: 9,  # metadata
    8: 8,  # offset_commit
    9: 6,  # offset_fetch
    10: 3,  # find_coordinator
    11: 6,  # join_group
    12: 4,  # heartbeat
    13: 4,  # leave_group
    14: 4,  # sync_group
    15: 5,  # describe_groups
    16: 3,  # list_groups
    17: None,  # sasl_handshake
    18: 3,  # api_versions
    19: 5,  # create_topics
    20: 4,  # delete_topics
    21: 2,  # delete_records
    22: 2,  # init_producer_id
    23: 4,  # offset_for_leader_epoch
    24: 3,  # add_partitions_to_txn
    25: 3,  # add_offsets_to_txn
    26: 3,  # end_txn
    27: 1,  # write_txn_markers
    28: 3,  # txn_offset_commit
    29: 2,  # describe_acls
    30: 2,  # create_acls
    31: 2,  # delete_acls
    32: 4,  # describe_configs
    33: 2,  # alter_configs
    34: 2,  # alter_replica_log_dirs
    35: 2,  # describe_log_dirs
    36: 2,  # sasl_authenticate
    37: 2,  # create_partitions
    42: 2,  # delete_groups
    43: 2,  # elect_leaders
    44: 1,  # incremental_alter_configs
    45: 0,  # alter_partition_reassignments
    46: 0,  # list_partition_reassignments
    47: None,  # offset_delete
    48: 1,  # describe_client_quotas
    49: 1,  # alter_client_quotas
    50: 0,  # describe_user_scram_credentials
    51: 0,  # alter_user_scram_credentials
    55: 0,  # describe_quorum
    56: 2,  # alter_partition
    57: 0,  # update_features
    60: 0,  # describe_cluster
    61: 0,  # describe_producers
    65: 0,  # describe_transactions
    66: 0,  # list_transactions
    68: 0,  # consumer_group_heartbeat
    69: 0,  # consumer_group_describe
    74: 0,  # list_config_resources
    75: 0,  # describe_topic_partitions
}
"""API key -> first version with compact lengths and tags; decides the header version."""

VERSIONS: Final[dict[int, tuple[int, int]]] = {
    0: (3, 13),  # produce
    1: (4, 18),  # fetch
    2: (1, 11),  # list_offsets
    3: (0, 13),  # metadata
    8: (2, 10),  # offset_commit
    9: (1, 10),  # offset_fetch
    10: (0, 6),  # find_coordinator
    11: (0, 9),  # join_group
    12: (0, 4),  # heartbeat
    13: (0, 5),  # leave_group
    14: (0, 5),  # sync_group
    15: (0, 6),  # describe_groups
    16: (0, 5),  # list_groups
    17: (0, 1),  # sasl_handshake
    18: (0, 4),  # api_versions
    19: (2, 7),  # create_topics
    20: (1, 6),  # delete_topics
    21: (0, 2),  # delete_records
    22: (0, 5),  # init_producer_id
    23: (2, 4),  # offset_for_leader_epoch
    24: (0, 5),  # add_partitions_to_txn
    25: (0, 4),  # add_offsets_to_txn
    26: (0, 5),  # end_txn
    27: (1, 2),  # write_txn_markers
    28: (0, 5),  # txn_offset_commit
    29: (1, 3),  # describe_acls
    30: (1, 3),  # create_acls
    31: (1, 3),  # delete_acls
    32: (1, 4),  # describe_configs
    33: (0, 2),  # alter_configs
    34: (1, 2),  # alter_replica_log_dirs
    35: (1, 5),  # describe_log_dirs
    36: (0, 2),  # sasl_authenticate
    37: (0, 3),  # create_partitions
    42: (0, 2),  # delete_groups
    43: (0, 2),  # elect_leaders
    44: (0, 1),  # incremental_alter_configs
    45: (0, 1),  # alter_partition_reassignments
    46: (0, 0),  # list_partition_reassignments
    47: (0, 0),  # offset_delete
    48: (0, 1),  # describe_client_quotas
    49: (0, 1),  # alter_client_quotas
    50: (0, 0),  # describe_user_scram_credentials
    51: (0, 0),  # alter_user_scram_credentials
    55: (0, 2),  # describe_quorum
    56: (2, 3),  # alter_partition
    57: (0, 2),  # update_features
    60: (0, 2),  # describe_cluster
    61: (0, 0),  # describe_producers
    65: (0, 0),  # describe_transactions
    66: (0, 2),  # list_transactions
    68: (0, 1),  # consumer_group_heartbeat
    69: (0, 1),  # consumer_group_describe
    74: (0, 1),  # list_config_resources
    75: (0, 0),  # describe_topic_partitions
}
"""API key -> first and last version."""
