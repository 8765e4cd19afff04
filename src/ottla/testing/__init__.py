"""For the tests of programs that use Kafka: a real broker in the process, and pytest fixtures that give one.

`embedded` holds the broker that `from ottla import Broker` gives, `cluster` the several of them that `from
ottla import Cluster` gives; `plugin` is loaded by pytest by itself.
Rule: loading `plugin` costs nothing, as every pytest run pays for it; fixtures import what they need.
"""
