"""The files of a pipeline as the driver loads them: Spark is told of every flow, and we note where it stands.

PySpark runs the files, and hands each output and flow to a registry. Ours passes them on, and remembers what
a flow reads: from its plan, which for a flow in Python is here, and from the text of one in SQL.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.pipelines.cli import PipelineSpec, register_definitions
from pyspark.pipelines.flow import Flow as PythonFlow
from pyspark.pipelines.output import Output, Sink, TemporaryView
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

from ottla.pipelines import mistakes
from ottla.pipelines.dataflow import SINK, TABLE, TOPIC, VIEW, Dataflow, Flow, Node
from ottla.pipelines.mistakes import Mistake, Origin
from ottla.pipelines.sql_statements import Statement, last_part, statements

KAFKA_FORMATS = ("ottla", "kafka")
ARCHIVE_FORMAT = "parquet_by"


class MistakesError(Exception):
    """The files of the pipeline are wrong, or a flow has failed."""

    def __init__(self, found_mistakes: list[Mistake]) -> None:
        super().__init__(found_mistakes[0].reason)
        self.mistakes = found_mistakes


class Definitions(SparkConnectGraphElementRegistry):
    """A registry that knows afterwards what it was given."""

    def __init__(self, spark: Any, graph: str, root: Path) -> None:
        super().__init__(spark, graph)
        self.root = root
        self.origins: dict[str, Origin] = {}
        self.archives: dict[str, str] = {}
        self._nodes: dict[str, Node] = {}
        self._flows: list[Flow] = []
        self._plans: list[tuple[PythonFlow, Any]] = []
        self._statements: list[tuple[str, Statement]] = []

    def load(self, path: Path, spec: PipelineSpec, spark: Any, graph: str) -> None:
        """All files, or what is wrong with the first that is."""
        try:
            register_definitions(path, self, spec, spark, graph)
        except MistakesError:
            raise
        except Exception as error:
            raise MistakesError([mistakes.of_import(error, str(self.root))]) from error

    def register_output(self, output: Output) -> None:
        super().register_output(output)
        name = last_part(output.name)
        if isinstance(output, Sink):
            options = {key.lower(): value for key, value in output.options.items()}
            topic = options.get("topic") if output.format in KAFKA_FORMATS else None
            if output.format == ARCHIVE_FORMAT and "path" in options:
                self.archives[name] = options["path"]
            kind = TABLE if name in self.archives else SINK
            self._nodes[name] = Node(TOPIC, topic) if topic else Node(kind, name)
        else:
            self._nodes[name] = Node(VIEW if isinstance(output, TemporaryView) else TABLE, name)

    def register_flow(self, flow: PythonFlow) -> None:
        at = flow.source_code_location
        name = last_part(flow.name)
        frames: list[Any] = []
        self.origins[name] = origin = Origin(at.filename, at.line_number or 0)

        def function() -> Any:
            frame = flow.func()
            if not hasattr(frame, "_plan"):
                raise TypeError(f"the function returns {type(frame).__name__}, not a DataFrame")
            frames.append(frame)
            return frame

        try:
            super().register_flow(replace(flow, func=function))
        except Exception as error:
            raise MistakesError([mistakes.of_flow(error, name, origin)]) from error
        self._plans.append((flow, frames[0]._plan.plan(self._client)))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        file = str(self.root / file_path)
        for statement in statements(sql_text):
            if statement.flow:
                self.origins[statement.flow] = Origin(file, statement.line, statement)
                self._statements.append((file, statement))
        try:
            super().register_sql(sql_text, file_path)
        except Exception as error:
            raise MistakesError([mistakes.of_sql_file(error, file, sql_text)]) from error

    def dataflow(self) -> Dataflow:
        """Once all files are loaded."""
        nodes = dict(self._nodes)
        for _, statement in self._statements:
            if statement.kind != "FLOW":
                nodes[statement.flow] = Node(
                    VIEW if statement.kind == "TEMPORARY VIEW" else TABLE, statement.flow
                )
        flows = []
        for flow, plan in self._plans:
            reads = dict.fromkeys(node for read in _reads(plan) for node in _read_nodes(read, nodes))
            at = flow.source_code_location
            target = last_part(flow.target)
            writes = nodes.get(target, Node(TABLE, target))
            flows.append(Flow(last_part(flow.name), tuple(reads), writes, at.filename, at.line_number or 0))
        for file, statement in self._statements:
            if statement.has_query:
                reads = dict.fromkeys(nodes[name] for name in statement.reads(set(nodes)))
                writes = nodes.get(statement.target, Node(TABLE, statement.target))
                flows.append(Flow(statement.flow, tuple(reads), writes, file, statement.first_line))
        return Dataflow(tuple(dict.fromkeys(nodes.values())), tuple(flows))


def _reads(message: Any) -> Iterator[Any]:
    """Every Read in a plan, however deep."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read":
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for part in value if descriptor.is_repeated else [value]:
            yield from _reads(part)


def _read_nodes(read: Any, nodes: dict[str, Node]) -> list[Node]:
    if read.HasField("named_table"):
        name = last_part(read.named_table.unparsed_identifier)
        return [nodes.get(name, Node(TABLE, name))]
    options = {key.lower(): value for key, value in read.data_source.options.items()}
    if read.data_source.format in KAFKA_FORMATS:
        return [Node(TOPIC, topic) for topic in _topics(options)]
    return [Node(SINK, options.get("path") or read.data_source.format)]


def _topics(options: dict[str, str]) -> list[str]:
    if "subscribe" in options:
        return [topic.strip() for topic in options["subscribe"].split(",")]
    if "assign" in options:
        return sorted(json.loads(options["assign"]))
    return [options.get("subscribepattern", "")]
