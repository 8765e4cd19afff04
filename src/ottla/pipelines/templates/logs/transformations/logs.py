"""Log lines out of the topic `logs`: parsed, enriched, kept by day; errors and what nobody understood go on.

Understood: JSON lines, the combined format of nginx and Apache, syslog (RFC 3164 with and without priority,
RFC 5424), and lines that begin with time and level as most frameworks write them. Nothing is dropped:
a line in no known format has the format `unknown`, and is kept as it came.
"""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

spark = SparkSession.active()
CLUSTER = {
    "kafka.bootstrap.servers": str(spark.conf.get("spark.ottla.bootstrap.servers")),
    "clientConfig": str(spark.conf.get("spark.ottla.client.config", "")),
}
GROUPS = str(spark.conf.get("spark.ottla.group.prefix"))
TABLES = str(spark.conf.get("spark.sql.warehouse.dir"))

MOMENT = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
PATTERNS = {
    "access": (
        r'^(?<client>\S+) \S+ (?<user>\S+) \[(?<time>[^\]]+)\] "(?<method>[A-Z]+) (?<url>\S+)[^"]*" '
        r"(?<status>\d{3}) (?<bytes>\d+|-)(?: .*)?$"
    ),
    "syslog5424": (
        rf"^<(?<priority>\d{{1,3}})>1 (?<time>{MOMENT}) (?<host>\S+) (?<app>\S+) (?<pid>\S+) \S+ "
        r"(?:-|\[.*?\])(?: (?<message>.*))?$"
    ),
    "syslog": (
        rf"^(?:<(?<priority>\d{{1,3}})>)?(?<time>[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{MOMENT}) "
        r"(?<host>\S+) (?<app>[^\s:\[\]]+)(?:\[(?<pid>\d+)\])?: (?<message>.*)$"
    ),
    "application": rf"^(?<time>{MOMENT})\s+\[?(?<level>[A-Za-z]+)\]?[\s:-]+(?<message>.*)$",
}
LEVELS = {
    "TRACE": "DEBUG", "DEBUG": "DEBUG", "INFO": "INFO", "NOTICE": "INFO", "WARN": "WARN", "WARNING": "WARN",
    "ERR": "ERROR", "ERROR": "ERROR", "SEVERE": "ERROR", "CRIT": "FATAL", "CRITICAL": "FATAL",
    "FATAL": "FATAL", "ALERT": "FATAL", "EMERG": "FATAL", "PANIC": "FATAL",
}  # fmt: skip
# JSON has as many names for these as there are libraries.
JSON_NAMES = {
    "time": ("time", "timestamp", "@timestamp", "ts", "asctime"),
    "level": ("level", "severity", "levelname", "lvl", "log.level"),
    "message": ("message", "msg", "event"),
    "app": ("app", "service", "logger", "name"),
}
BAD_WORDS = r"(?i)\b(error|exception|fail(?:ed|ure)?|fatal|panic|segfault)\b"


def part(form: str, name: str) -> Column:
    """A named group of a format's pattern; null where it did not match or is empty."""
    pattern = PATTERNS[form]
    names = [group.split(">")[0] for group in pattern.split("(?<")[1:]]
    if name not in names:
        return sf.lit(None).cast("string")
    return sf.nullif(sf.regexp_extract("line", pattern, names.index(name) + 1), sf.lit(""))


def from_format(name: str) -> Column:
    """A part, from whichever format the line has."""
    value = sf.lit(None).cast("string")
    for form in PATTERNS:
        value = sf.when(sf.col("format") == form, part(form, name)).otherwise(value)
    if name in JSON_NAMES:
        keys = [sf.col("json").getItem(key) for key in JSON_NAMES[name]]
        value = sf.when(sf.col("format") == "json", sf.coalesce(*keys)).otherwise(value)
    return value


def moment(text: Column) -> Column:
    """The time in any of the formats. Syslog leaves out the year: it is the one that makes it the past."""
    iso = sf.regexp_replace(sf.regexp_replace(text, ",", "."), " ", "T")
    seconds = sf.when(text.rlike(r"^\d{9,11}(\.\d+)?$"), sf.timestamp_seconds(text.try_cast("double")))
    millis = sf.when(text.rlike(r"^\d{12,14}$"), sf.timestamp_millis(text.try_cast("bigint")))
    squeezed = sf.regexp_replace(text, r"\s+", " ")
    this_year = sf.try_to_timestamp(
        sf.concat(sf.year("received").cast("string"), sf.lit(" "), squeezed), sf.lit("yyyy MMM d HH:mm:ss")
    )
    year_before = this_year - sf.expr("INTERVAL 1 YEAR")
    syslog = sf.when(this_year > sf.col("received") + sf.expr("INTERVAL 1 DAY"), year_before).otherwise(
        this_year
    )
    access = sf.try_to_timestamp(text, sf.lit("dd/MMM/yyyy:HH:mm:ss Z"))
    return sf.coalesce(iso.try_cast("timestamp"), access, syslog, millis, seconds)


def level() -> Column:
    named = sf.upper(from_format("level"))
    by_name = sf.coalesce(*[sf.when(named == name, sf.lit(value)) for name, value in LEVELS.items()])
    severity = from_format("priority").try_cast("int") % 8
    by_priority = (
        sf.when(severity <= 2, "FATAL").when(severity == 3, "ERROR").when(severity == 4, "WARN")
        .when(severity == 7, "DEBUG").when(severity.isNotNull(), "INFO")
    )  # fmt: skip
    status = from_format("status").try_cast("int")
    by_status = sf.when(status >= 500, "ERROR").when(status >= 400, "WARN").when(status.isNotNull(), "INFO")
    by_words = sf.when(sf.col("line").rlike(BAD_WORDS), "ERROR")
    return sf.coalesce(by_name, by_priority, by_status, by_words, sf.lit("INFO"))


def parsed(records: DataFrame) -> DataFrame:
    """Records of `ottla ship`, or of anybody, as rows of the archive."""
    headers = sf.expr("map_from_entries(transform(coalesce(headers, array()), h -> struct(h.key, h.value)))")
    lines = records.select(
        sf.make_valid_utf8(sf.col("value").cast("string")).alias(
            "line"
        ),  # junk, too, must be text in a table
        sf.col("timestamp").alias("received"),
        "topic",
        "partition",
        "offset",
        headers.getItem("host").cast("string").alias("from_host"),
        headers.getItem("path").cast("string").alias("path"),
    )
    form = sf.when(sf.col("json").isNotNull(), sf.lit("json"))
    for name, pattern in PATTERNS.items():
        form = form.when(sf.col("line").rlike(pattern), sf.lit(name))
    json = sf.when(sf.col("line").startswith("{"), sf.from_json("line", "MAP<STRING, STRING>"))
    formatted = lines.withColumn("json", json).withColumn("format", form.otherwise("unknown"))
    time = sf.coalesce(moment(from_format("time")), sf.col("received"))
    name_of_file = sf.regexp_extract("path", r"([^/]+?)(\.log)?$", 1)
    return formatted.select(
        time.alias("time"),
        level().alias("level"),
        sf.coalesce(from_format("host"), "from_host").alias("host"),
        sf.coalesce(from_format("app"), sf.nullif(name_of_file, sf.lit(""))).alias("app"),
        sf.coalesce(from_format("message"), "line").alias("message"),
        from_format("client").alias("client"),
        from_format("method").alias("method"),
        from_format("url").alias("url"),
        from_format("status").try_cast("int").alias("status"),
        from_format("bytes").try_cast("bigint").alias("bytes"),
        "format", "path", "received", "partition", "offset",
        sf.to_date(time).alias("day"),
    )  # fmt: skip


def lines(flow: str) -> DataFrame:
    """The topic from its beginning. Each flow reads it for itself; a log does not mind."""
    records = (
        spark.readStream.format("ottla")
        .options(**CLUSTER)
        .option("subscribe", "logs")
        .option("startingOffsets", "earliest")
        .option("groupIdPrefix", f"{GROUPS}.{flow}")
        .option("includeHeaders", "true")
        .load()
    )
    return parsed(records)


dp.create_sink("archive", "parquet_by", {"path": f"{TABLES}/archive", "by": "day"})


@dp.append_flow(target="archive")
def archive_rows() -> DataFrame:
    return lines("archive")


@dp.table(comment="Lines of level ERROR and FATAL.")
def errors() -> DataFrame:
    return lines("errors").where("level IN ('ERROR', 'FATAL')")


def as_records(rows: DataFrame) -> DataFrame:
    key = sf.concat_ws(":", "host", "app")
    return rows.select(key.alias("key"), sf.to_json(sf.struct("*")).alias("value"))


def to_topic(name: str, topic: str) -> None:
    dp.create_sink(name, "ottla", {**CLUSTER, "topic": topic})


to_topic("errors_topic", "logs.errors")
to_topic("unparsed_topic", "logs.unparsed")


@dp.append_flow(target="errors_topic")
def errors_records() -> DataFrame:
    return as_records(spark.readStream.table("errors"))


@dp.append_flow(target="unparsed_topic")
def unparsed_records() -> DataFrame:
    return as_records(lines("unparsed").where("format = 'unknown'"))
