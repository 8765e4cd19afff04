"""The cluster as its controller sees it, and what the controller did. On a broker that is not the controller
what is counted of the cluster is 0, as with Kafka: to sum up over all brokers is right."""

from collections.abc import Iterator

from ottla.base.metrics import Family, counter, gauge, histogram
from ottla.broker.cluster_events import ClusterEvents
from ottla.broker.controller_events import ControllerEvents
from ottla.broker.controller_seat import Seat
from ottla.broker.liveness import Liveness
from ottla.controller.causes import Reason
from ottla.controller.image import Image


class ControllerMetrics:
    ACTIVE = gauge(
        "kafka_controller_kafkacontroller_activecontrollercount", "1 if this broker is the controller."
    )
    OFFLINE = gauge(
        "kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions that nobody leads."
    )
    IMBALANCE = gauge(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "Partitions that another than their preferred leader leads.",
    )
    TOPICS = gauge("kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster.")
    PARTITIONS = gauge("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster.")
    BROKERS = gauge("kafka_controller_kafkacontroller_activebrokercount", "Brokers that are registered.")
    FENCED = gauge(
        "kafka_controller_kafkacontroller_fencedbrokercount",
        "Brokers that are registered, and not counted on: they refuse connections.",
    )
    CONTROLLERS = gauge(
        "kafka_controller_kafkacontroller_newactivecontrollerscount",
        "How often a broker became the controller since this one was started.",
    )
    EPOCH = gauge("ottla_controller_epoch", "The controller's epoch, which grows with each new controller.")
    ELECTION_WRITES = counter(
        "kafka_controller_controllerstats_leaderelectionrateandtimems_count",
        "Writes by which this controller made leaders; each may be about very many partitions.",
    )
    UNCLEAN = counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Partitions for which this controller elected a leader that may lack what was committed.",
    )
    ELECTIONS = counter(
        "ottla_controller_elections_total",
        "Partitions for which this controller elected a leader, by the reason.",
        "reason",
    )
    ELECTION_TIMES = histogram(
        "ottla_controller_election_seconds", "How long it took to write leaders, once they were decided on."
    )

    def __init__(
        self,
        image: Image,
        seat: Seat,
        liveness: Liveness,
        events: ControllerEvents,
        cluster_events: ClusterEvents,
    ) -> None:
        self._image = image
        self._seat = seat
        self._liveness = liveness
        self._events = events
        self._cluster_events = cluster_events

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        image, events, is_active = self._image, self._events, self._seat.is_active
        offline, imbalanced, partitions = self._counted() if is_active else (0, 0, 0)
        yield self.ACTIVE, [((), int(is_active))]
        yield self.OFFLINE, [((), offline)]
        yield self.IMBALANCE, [((), imbalanced)]
        yield self.TOPICS, [((), len(image.topics) if is_active else 0)]
        yield self.PARTITIONS, [((), partitions)]
        suspected = len(self._liveness.suspected)
        yield self.BROKERS, [((), len(image.brokers) - suspected if is_active else 0)]
        yield self.FENCED, [((), suspected if is_active else 0)]
        yield self.CONTROLLERS, [((), self._cluster_events.controllers)]
        yield self.EPOCH, [((), image.controller_epoch)]
        yield self.ELECTION_WRITES, [((), sum(events.election_durations.counts))]
        yield self.UNCLEAN, [((), events.unclean_elections)]
        reasons = (reason for reason in events.elections if reason is not Reason.LATE)  # an ISR's alone
        yield self.ELECTIONS, [((reason.label,), events.elections[reason]) for reason in reasons]
        yield self.ELECTION_TIMES, [((), events.election_durations)]

    def _counted(self) -> tuple[int, int, int]:
        """Partitions without a leader that is there, with another than the preferred one, and all."""
        brokers, offline, imbalanced, partitions = self._image.brokers, 0, 0, 0
        for topic in self._image.topics.values():
            assignment = topic.assignment
            partitions += len(assignment)
            for index, state in topic.states.items():
                leader, replicas = state.leader, assignment.get(index)
                if leader not in brokers:
                    offline += 1
                if replicas and leader != replicas[0]:
                    imbalanced += 1
        return offline, imbalanced, partitions
