"""`ottla groups`: groups of both protocols.

commands          list, describe, delete
reset             move what a group has committed
offset_deletion   the request that confluent-kafka does not have
"""
