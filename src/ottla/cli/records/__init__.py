"""`ottla produce` and `ottla consume`: records in and out.

produce · consume   the commands
input_transactions  producing in transactions
group_member        consuming as a member of a group
formats             records as text, JSON or a template, and back
messages            records of librdkafka's as the formats take them
"""
