"""The folder of a pipeline: template, specification, properties, and what Ottla keeps about its runs."""

import glob
import importlib.resources
import json
import os
from contextlib import AbstractContextManager
from importlib.resources.abc import Traversable
from typing import Any
from urllib.parse import unquote, urlparse

from ottla.base.command_error import FAILED, USAGE, CommandError
from ottla.base.file_lock import exclusive
from ottla.base.properties import read_file
from ottla.client.properties import DEFAULT_BOOTSTRAP

TEMPLATES = ("metrics", "logs", "stream")
SPECIFICATIONS = ("spark-pipeline.yml", "spark-pipeline.yaml")
DEFAULTS = "spark-defaults.conf"
OWN = ".ottla"
SERVERS = "spark.ottla.bootstrap.servers"
TOPICS = "spark.ottla.topics"
WAREHOUSE = "spark.sql.warehouse.dir"


class PipelineFolder:
    def __init__(self, folder: str) -> None:
        self.path = os.path.abspath(folder)
        there = [name for name in SPECIFICATIONS if os.path.isfile(os.path.join(self.path, name))]
        if not there:
            raise CommandError(
                f"{folder} has no {SPECIFICATIONS[0]}; "
                f"`ottla pipeline init --template metrics {folder}` makes one",
                USAGE,
            )
        self.specification = os.path.join(self.path, there[0])

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def read(self) -> dict[str, Any]:
        """The specification, checked as far as we use it. Spark checks the rest."""
        import yaml  # type: ignore[import-untyped]

        try:
            with open(self.specification, encoding="utf-8") as file:
                specification = yaml.safe_load(file)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            words = " ".join(part for part in (error.context, error.problem) if part)
            raise CommandError(f"{self.specification}{at}: {words}") from None
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise CommandError(f"{self.specification}: {' '.join(str(error).split())}") from None
        if not isinstance(specification, dict) or not isinstance(
            specification.get("configuration", {}), dict
        ):
            raise CommandError(f"{self.specification} is not the specification of a pipeline")
        return specification

    def sources(self) -> list[str]:
        """The files that make up the pipeline. One that the specification names and that is not there is an
        error here; Spark would go on without it."""
        files: list[str] = []
        libraries = self.read().get("libraries") or []
        for include in _includes(self.specification, libraries):
            pattern = os.path.join(glob.escape(self.path), include)
            matching = [
                path
                for path in sorted(
                    glob.glob(f"{pattern}/*" if include.endswith("/**") else pattern, recursive=True)
                )
                if os.path.isfile(path) and "__pycache__" not in path
            ]
            if not matching:
                raise CommandError(
                    f"{self.specification}: libraries name {include}, and no file is there", FAILED
                )
            files += matching
        if not files:
            raise CommandError(
                f"{self.specification} names no files of the pipeline: "
                "`libraries: [{glob: {include: transformations/**}}]` does"
            )
        return list(dict.fromkeys(files))

    def defaults(self) -> dict[str, str]:
        """Properties that Spark must know before it starts. Where the folder does not say, tables and their
        catalog are in it, so that a run finds the tables of the run before."""
        address = f"jdbc:derby:;databaseName={self.path}/catalog;create=true"
        lasting = {
            WAREHOUSE: f"file://{self.path}/tables",
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": address,
        }
        path = os.path.join(self.path, DEFAULTS)
        return lasting | (read_file(path) if os.path.exists(path) else {})

    def own(self, name: str) -> str:
        return os.path.join(self.path, OWN, name)

    def locked(self) -> AbstractContextManager[None]:
        """One run at a time: two would write the same tables."""
        return exclusive(
            self.own("lock"),
            unwritable=f"cannot write to {self.path}",
            held=f"the pipeline in {self.path} is running already",
        )

    def is_running(self) -> bool:
        try:
            with self.locked():
                return False
        except CommandError:
            return True

    def note(self, run: dict[str, Any]) -> None:
        fresh = self.own("run.json.new")
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
        os.replace(fresh, self.own("run.json"))

    def last_run(self) -> dict[str, Any] | None:
        try:
            with open(self.own("run.json"), encoding="utf-8") as file:
                run: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return None
        return run


def _includes(specification: str, libraries: Any) -> list[str]:
    try:
        return [str(entry["glob"]["include"]) for entry in libraries]
    except (TypeError, KeyError):
        raise CommandError(
            f"{specification}: an entry of libraries is not `glob: {{include: transformations/**}}`"
        ) from None


def local_path(address: str) -> str | None:
    """The path behind file:///... or a plain path; None if it is on another system."""
    parts = urlparse(address)
    if parts.scheme not in ("", "file"):
        return None
    return unquote(parts.path)


def create_folder(folder: str, template: str, bootstrap: str | None) -> None:
    """Out of a template; `bootstrap` takes the place of the usual address in it."""
    if template not in TEMPLATES:
        raise CommandError(f"--template is one of {', '.join(TEMPLATES)}, not {template!r}", USAGE)
    if os.path.isdir(folder) and os.listdir(folder):
        raise CommandError(f"{folder} is not empty", USAGE)
    path = os.path.abspath(folder)
    words = {"name": os.path.basename(path), "folder": f"file://{path}", "path": path}
    try:
        _copy(
            importlib.resources.files("ottla") / "pipelines" / "templates" / template, path, words, bootstrap
        )
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror}") from None


def _copy(source: Traversable, target: str, words: dict[str, str], bootstrap: str | None) -> None:
    os.makedirs(target, exist_ok=True)
    for entry in source.iterdir():
        path = os.path.join(target, entry.name)
        if entry.is_dir() and entry.name != "__pycache__":
            _copy(entry, path, words, bootstrap)
        elif entry.name.endswith((".py", ".sql", ".yml", ".conf", ".md")):
            text = entry.read_text(encoding="utf-8")
            if entry.name.endswith((".yml", ".conf")):
                for name, value in words.items():
                    text = text.replace("{{ " + name + " }}", value)
                if bootstrap:
                    text = text.replace(DEFAULT_BOOTSTRAP, bootstrap)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
