"""PySpark looks for `DefaultSource` in packages named pyspark_*: this one makes `format("ottla")` known."""
