"""Bytewax's Kafka connector: from one topic into another."""

import os

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

brokers = os.environ["BOOTSTRAP"].split(",")
flow = Dataflow("upper")
read = kop.input("in", flow, brokers=brokers, topics=["in"], tail=True)
upper = op.map("upper", read.oks, lambda message: KafkaSinkMessage(message.key, message.value.upper()))
kop.output("out", upper, brokers=brokers, topic="out")
