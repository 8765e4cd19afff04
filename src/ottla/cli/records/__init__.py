"""`ottla produce` and `ottla consume`: records in and out.

produce · consume                                       the commands
input_lines · input_records                             what is read, and the records that it is
ways · batch_sender · librdkafka_sender · deliveries    how they are sent, and what became of them
input_transactions                                      the same in transactions
ranges · partition_reader · librdkafka_reader           what of a topic is read, and by whom
group_member                                            reading as a member of a group
formats · schema_options · filters · messages           records as they are printed, and which of them
"""
