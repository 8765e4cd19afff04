"""Kafka's broker keys that have no effect here, so that they are told from slips.

Names of Kafka 3.0 to 4.2. Those that ask for security are in `security`; those that have an effect are rows
of the config classes.
"""

import re
from collections.abc import Iterator, Mapping

from ottla.broker.listeners import LISTENER_PREFIX
from ottla.broker.security import asks_for_security, is_honoured, is_security_key

WITHOUT_EFFECT = frozenset({
    "alter.config.policy.class.name", "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds", "auto.include.jmx.reporter",
    "background.threads", "broker.heartbeat.interval.ms", "broker.id.generation.enable",
    "broker.session.timeout.ms", "client.quota.callback.class", "config.providers",
    "control.plane.listener.name",
    "controller.performance.always.log.threshold.ms", "controller.performance.sample.period.ms",
    "controller.quorum.append.linger.ms", "controller.quorum.auto.join.enable",
    "controller.quorum.bootstrap.servers", "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms", "controller.quorum.fetch.max.bytes",
    "controller.quorum.fetch.snapshot.max.bytes", "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms",
    "controller.quorum.voters",
    "controller.socket.timeout.ms", "cordoned.log.dirs", "create.topic.policy.class.name",
    "delegation.token.expiry.check.interval.ms", "delegation.token.expiry.time.ms",
    "delegation.token.max.lifetime.ms", "delete.records.purgatory.purge.interval.requests",
    "early.start.listeners", "eligible.leader.replicas.enable", "fetch.purgatory.purge.interval.requests",
    "follower.fetch.last.tiered.offset.enable", "group.consumer.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms", "group.consumer.min.assignment.interval.ms",
    "group.consumer.regex.refresh.interval.ms", "group.coordinator.append.linger.ms",
    "group.coordinator.background.threads", "group.coordinator.cached.buffer.max.bytes",
    "group.coordinator.new.enable", "group.coordinator.threads", "group.share.assignment.interval.ms",
    "group.share.assignors", "group.share.delivery.count.limit", "group.share.enable",
    "group.share.heartbeat.interval.ms", "group.share.initialize.retry.interval.ms",
    "group.share.max.assignment.interval.ms", "group.share.max.delivery.count.limit",
    "group.share.max.groups", "group.share.max.heartbeat.interval.ms",
    "group.share.max.partition.max.record.locks", "group.share.max.record.lock.duration.ms",
    "group.share.max.session.timeout.ms", "group.share.max.share.sessions", "group.share.max.size",
    "group.share.min.assignment.interval.ms", "group.share.min.delivery.count.limit",
    "group.share.min.heartbeat.interval.ms", "group.share.min.partition.max.record.locks",
    "group.share.min.record.lock.duration.ms", "group.share.min.session.timeout.ms",
    "group.share.partition.max.record.locks", "group.share.persister.class.name",
    "group.share.record.lock.duration.ms", "group.share.session.timeout.ms",
    "group.streams.assignment.interval.ms", "group.streams.heartbeat.interval.ms",
    "group.streams.initial.rebalance.delay.ms", "group.streams.max.assignment.interval.ms",
    "group.streams.max.heartbeat.interval.ms", "group.streams.max.session.timeout.ms",
    "group.streams.max.size", "group.streams.max.standby.replicas",
    "group.streams.min.assignment.interval.ms", "group.streams.min.heartbeat.interval.ms",
    "group.streams.min.session.timeout.ms", "group.streams.num.standby.replicas",
    "group.streams.session.timeout.ms", "initial.broker.registration.timeout.ms",
    "inter.broker.protocol.version", "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes", "internal.metadata.max.batch.size.in.bytes",
    "internal.metadata.max.fetch.size.in.bytes", "kafka.metrics.polling.interval.secs",
    "kafka.metrics.reporters", "log.dir.failure.timeout.ms", "log.initial.task.delay.ms",
    "log.local.retention.bytes", "log.local.retention.ms", "log.message.downconversion.enable",
    "log.message.format.version", "log.message.timestamp.difference.max.ms",
    "metadata.log.dir",
    "metadata.log.max.record.bytes.between.snapshots", "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes", "metadata.log.segment.min.bytes", "metadata.log.segment.ms",
    "metadata.max.idle.interval.ms", "metadata.max.retention.bytes", "metadata.max.retention.ms",
    "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir",
    "num.replica.alter.log.dirs.threads", "num.replica.fetchers", "offsets.commit.required.acks",
    "offsets.load.buffer.size", "password.encoder.cipher.algorithm", "password.encoder.iterations",
    "password.encoder.key.length", "password.encoder.keyfactory.algorithm",
    "producer.purgatory.purge.interval.requests", "queued.max.requests",
    "remote.fetch.max.wait.ms", "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.total.size.bytes", "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.copier.thread.pool.size", "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.copy.quota.window.num", "remote.log.manager.copy.quota.window.size.seconds",
    "remote.log.manager.expiration.thread.pool.size", "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.fetch.quota.window.num", "remote.log.manager.fetch.quota.window.size.seconds",
    "remote.log.manager.follower.thread.pool.size", "remote.log.manager.task.interval.ms",
    "remote.log.manager.task.retry.backoff.max.ms", "remote.log.manager.task.retry.backoff.ms",
    "remote.log.manager.task.retry.jitter", "remote.log.manager.thread.pool.size",
    "remote.log.metadata.custom.metadata.max.bytes", "remote.log.metadata.manager.class.name",
    "remote.log.metadata.manager.class.path", "remote.log.metadata.manager.impl.prefix",
    "remote.log.metadata.manager.listener.name", "remote.log.reader.max.pending.tasks",
    "remote.log.reader.threads", "remote.log.storage.manager.class.name",
    "remote.log.storage.manager.class.path", "remote.log.storage.manager.impl.prefix",
    "remote.log.storage.system.enable", "replica.socket.receive.buffer.bytes",
    "replication.quota.window.num", "replication.quota.window.size.seconds", "request.timeout.ms",
    "reserved.broker.max.id", "server.max.startup.time.ms", "share.coordinator.append.linger.ms",
    "share.coordinator.cached.buffer.max.bytes", "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.load.buffer.size", "share.coordinator.snapshot.update.records.per.snapshot",
    "share.coordinator.state.topic.compression.codec", "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions", "share.coordinator.state.topic.prune.interval.ms",
    "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.segment.bytes",
    "share.coordinator.threads", "share.coordinator.write.timeout.ms", "share.fetch.max.fetch.records",
    "share.fetch.purgatory.purge.interval.requests", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "socket.listen.backlog.size", "ssl.allow.dn.changes",
    "ssl.allow.san.changes", "ssl.keymanager.algorithm", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "telemetry.max.bytes",
    "transaction.state.log.load.buffer.size",
    "unclean.leader.election.interval.ms", "unstable.api.versions.enable",
    "unstable.feature.versions.enable", "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests", "zookeeper.metadata.migration.enable",
    "zookeeper.metadata.migration.min.batch.size", "zookeeper.sync.time.ms",
})  # fmt: skip
# The settings of plugins for tiered storage, and what may be set for one listener.
PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.")
# And these have an effect there, too.
_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]+\.max\.connection(s|\.creation\.rate)\Z", re.IGNORECASE)


def is_without_effect(name: str) -> bool:
    return name in WITHOUT_EFFECT or name.startswith(PREFIXES) or is_security_key(name)


def remarks(properties: Mapping[str, str], names: set[str]) -> Iterator[str]:
    """What to say of keys that mean nothing here: Kafka's in one sentence, of another the names that may have
    been meant. Of those that ask for security `check_security` speaks."""
    others = [
        name
        for name, value in properties.items()
        if name not in names
        and not is_honoured(name)
        and not _OF_A_LISTENER.match(name)
        and not asks_for_security(name, value)
    ]
    kafkas = [name for name in others if is_without_effect(name)]
    if kafkas:
        yield f"these keys of Kafka have no effect here: {', '.join(sorted(kafkas))}"
    yield from _of_other_listeners(properties)
    for name in others:
        if not is_without_effect(name):
            import difflib  # late: hardly anybody pays for it

            near = difflib.get_close_matches(name, names, 3)
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            yield f"the config key {name!r} is not known and is ignored{meant}"


def _of_other_listeners(properties: Mapping[str, str]) -> Iterator[str]:
    """A name that is misspelled would leave the listener that was meant without what is set."""
    controllers = properties.get("controller.listener.names", "")
    listed = f"{properties.get('listeners', '')},{controllers}".split(",")
    names = {listener.partition("://")[0].strip().upper() for listener in listed if listener.strip()}
    for name in sorted(properties) if "listeners" in properties else ():
        listener = name.split(".")[2].upper() if name.lower().startswith(LISTENER_PREFIX) else ""
        if listener and listener not in names and not asks_for_security(name, properties[name]):
            yield f"{name} has no effect: {listener} is none of the listeners {', '.join(sorted(names))}"
