"""Exactly once, seen by clients that nobody here wrote: confluent-kafka, aiokafka, Apache Kafka's own.

servers     the brokers: Ottla or Apache Kafka, one or three; each can be killed with -9 and started again
producers   a transactional producer of each client, step by step
reading     what a topic holds for each isolation level, and where it is stable
copies      a topic copied in transactions while processes are killed, and the check; also a command
copiers     the processes that copy: confluent_copier, aiokafka_copier, Kafka's TransactionalMessageCopier
proxy       holds back a request of a client and delivers it late

`OTTLA_TRANSACTIONS_SERVER=apache` runs everything here against Apache Kafka, to see that a test asks for what
Kafka does.
"""
