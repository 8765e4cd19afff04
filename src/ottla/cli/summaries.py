"""What `ottla --help` says of each command. Made by `make reference`; change the commands, not this."""

SUMMARIES = {
    "start": "Run a broker in the foreground.",
    "secure": "Set up a broker with TLS, SASL and access control.",
    "cluster": "Run a cluster on this machine, see how one is.",
    "topics": "Create, list, describe, alter and delete topics.",
    "configs": "Show and change the configs of topics and brokers.",
    "groups": "List, describe, reset and delete consumer groups, of both protocols.",
    "transactions": "List and describe transactions, find those that hang, and abort them.",
    "users": "Users and their passwords, for SASL with SCRAM: list, add, remove.",
    "acls": "Who may do what: list, add and remove ACLs.",
    "quotas": "How much users, clients and addresses may ask of brokers: list, add, remove.",
    "produce": "Send lines of a file, or of stdin, as records.",
    "consume": "Print the records of a topic: all there are, or with --follow what comes.",
    "ship": "Follow log files and send every line to a topic, once.",
    "metrics": "Measure this host and the cluster, and send the values to a topic, until Ctrl-C.",
    "pipeline": "Make, run and look at data pipelines on Spark.",
    "dump": "Show what is in the files of a data directory.",
    "verify": "Check a data directory while no broker uses it, and say exactly what is wrong.",
    "skip": "Leave records that cannot be read out of what a coordinator loads.",
    "demo": "Show the whole: a broker in this process, produce, consume, a pipeline and its tables.",
}
