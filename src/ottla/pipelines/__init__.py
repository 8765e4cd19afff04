"""Data pipelines on Spark: folders made out of templates, run again and again, and looked at.

    folder              the folder of a pipeline, and how a template becomes one
    client_file         client properties of a run, secrets among them, for as long as it lasts
    run                 a run: its properties and topics, and the note of it in the folder
    driver_process      the driver seen from outside, and all that it starts
    driver              the driver itself, a process of its own in which Spark runs
    progress            what the driver has told so far
    spark_environment   Java and PySpark, found or missing
    status              what a pipeline has made so far, from its files
    archive             the sink of Parquet files in folders by the value of a column
    demo                shops that send orders, for `ottla demo`
    templates/          the pipelines themselves: copied, never imported

Rules: nothing is printed, a person is told through `say` and `show`; the command line (`cli/pipeline`) only
starts it. Not obvious: PySpark imports `archive` in every worker, so this file imports nothing.
"""
