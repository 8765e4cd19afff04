"""The columns that are read, which are the official connector's, and the columns that are written."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.errors import OptionError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_READ: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
_WRITTEN: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS,),
    "partition": (IntegerType(),),
}


def read_schema(*, include_headers: bool) -> StructType:
    return StructType(
        [StructField(name, kind) for name, kind in _READ.items() if include_headers or name != "headers"]
    )


def columns_of(schema: StructType, *, include_headers: bool) -> list[str]:
    """The columns to read. A schema given by the user chooses among them: what is not in it is not
    decoded."""
    for field in schema.fields:
        kind = _READ.get(field.name)
        if kind is None or not _same(field.dataType, kind):
            there = ", ".join(f"{name} {of.simpleString()}" for name, of in _READ.items())
            raise OptionError(
                f"schema: {field.name} {field.dataType.simpleString()} is not a column of this source; a "
                f"schema may choose "
                f"among {there}"
            )
        if field.name == "headers" and not include_headers:
            raise OptionError("schema: headers are read only with the option includeHeaders")
    return [field.name for field in schema.fields]


def check_written(schema: StructType, topic: str | None, timestamp_column: str | None) -> None:
    """Columns of other names are not written, as with the official connector."""
    fields = {field.name: field.dataType for field in schema.fields}
    if "value" not in fields:
        raise OptionError(
            "required attribute 'value' not found: the data to write has no column of that name"
        )
    if topic is None and "topic" not in fields:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a "
            "topic."
        )
    for name, kinds in _WRITTEN.items():
        if name in fields and not any(_same(fields[name], kind) for kind in kinds):
            wanted = " or ".join(kind.simpleString() for kind in kinds)
            raise OptionError(
                f"{name} attribute unsupported type {fields[name].simpleString()}. {name} must be a(n) "
                f"{wanted}"
            )
    if timestamp_column is not None and not _same(fields.get(timestamp_column), TimestampType()):
        raise OptionError(
            f"option timestampColumn: {timestamp_column!r} is not a timestamp column of the data"
        )


def _same(kind: DataType | None, other: DataType) -> bool:
    """Equal but for what may be null; collations and comments are not looked at."""
    return kind is not None and kind.simpleString() == other.simpleString()
