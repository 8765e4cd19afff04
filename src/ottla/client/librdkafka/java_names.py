"""Properties of Kafka's Java clients that librdkafka does not have, and that stand in files for both."""

_JAVA_ONLY = """
    auto.include.jmx.reporter bootstrap.controllers buffer.memory
    compression.gzip.level compression.lz4.level compression.zstd.level config.providers
    default.api.timeout.ms exclude.internal.topics fetch.max.wait.ms interceptor.classes
    internal.leave.group.on.close key.deserializer key.serializer max.block.ms
    max.request.size metadata.max.idle.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys receive.buffer.bytes send.buffer.bytes
    socket.connection.setup.timeout.max.ms value.deserializer value.serializer
"""
JAVA_ONLY = frozenset(_JAVA_ONLY.split())
