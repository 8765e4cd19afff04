"""confluent-kafka's serializers with a schema registry: BOOTSTRAP REGISTRY produce|consume."""

import sys

from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf.timestamp_pb2 import Timestamp

AVRO = """
{"type": "record", "name": "Letter",
 "fields": [{"name": "sender", "type": "string"}, {"name": "page", "type": "int"}]}
"""
JSON = """
{"title": "Letter", "type": "object", "required": ["sender"],
 "properties": {"sender": {"type": "string"}, "page": {"type": "integer"}}}
"""
LETTER = {"sender": "Ottla", "page": 7}
MOMENT = Timestamp(seconds=1_767_225_600)
bootstrap, address, step = sys.argv[1:]
registry = SchemaRegistryClient({"url": address})


def serializers():
    protobuf = {"use.deprecated.format": False}
    return {
        "avro": (AvroSerializer(registry, AVRO), AvroDeserializer(registry), LETTER),
        "json": (
            JSONSerializer(JSON, registry),
            JSONDeserializer(JSON, schema_registry_client=registry),
            LETTER,
        ),
        "protobuf": (
            ProtobufSerializer(Timestamp, registry, protobuf),
            ProtobufDeserializer(Timestamp, protobuf),
            MOMENT,
        ),
    }


for topic, (serializer, deserializer, value) in serializers().items():
    if step == "produce":
        producer = SerializingProducer({"bootstrap.servers": bootstrap, "value.serializer": serializer})
        producer.produce(topic, value=value)
        assert producer.flush(30) == 0
        continue
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"readers-of-{topic}",
            "auto.offset.reset": "earliest",
            "value.deserializer": deserializer,
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == value, message.value()
    consumer.close()
