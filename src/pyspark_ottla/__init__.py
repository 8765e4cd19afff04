"""Where PySpark finds `format("ottla")`: it looks for packages named pyspark_* with a `DefaultSource`.

PySpark imports every such package when any Python data source is used, so this one must load without
complaint.
"""

from ottla.spark.source import OttlaSource

DefaultSource = OttlaSource
