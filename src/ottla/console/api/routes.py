"""What scripts can ask for: one row each."""

from ottla.console.api import brokers, configs, groups, records, topics
from ottla.console.api.endpoints import CREATED, NO_CONTENT, Endpoint
from ottla.console.api.topics import ListQuery, TopicsQuery

ENDPOINTS = [
    Endpoint("GET", "/topics", "Topics by their names.", topics.list_all, topics.Topics, TopicsQuery),
    Endpoint(
        "POST", "/topics", "Create a topic.", topics.create, topics.CreatedTopic,
        body=topics.NewTopic, status=CREATED,
    ),
    Endpoint("GET", "/topics/{topic}", "A topic and its partitions.", topics.show, topics.TopicDetail),
    Endpoint(
        "PATCH", "/topics/{topic}", "Give a topic more partitions.", topics.grow, topics.TopicDetail,
        body=topics.Growth,
    ),
    Endpoint("DELETE", "/topics/{topic}", "Delete a topic for good.", topics.delete, status=NO_CONTENT),
    Endpoint(
        "GET", "/topics/{topic}/configs", "Settings of a topic.", configs.show_of_topic, configs.Configs
    ),
    Endpoint(
        "PATCH", "/topics/{topic}/configs", "Change settings of a topic.", configs.change_of_topic,
        configs.ChangedConfigs, body=configs.ConfigChanges,
    ),
    Endpoint(
        "GET", "/topics/{topic}/records", "A page of records, newest first.", records.show_page,
        records.RecordPage, records.RecordsQuery,
    ),
    Endpoint(
        "POST", "/topics/{topic}/records", "Send records.", records.send, records.SentRecords,
        body=records.NewRecords, status=CREATED,
    ),
    Endpoint(
        "DELETE", "/topics/{topic}/records", "Delete all records that are there now.", topics.empty,
        status=NO_CONTENT,
    ),
    Endpoint(
        "GET", "/topics/{topic}/records/{partition}/{offset}", "One record.", records.show,
        records.Record, records.FormatQuery,
    ),
    Endpoint("GET", "/groups", "Groups by their names.", groups.list_all, groups.Groups, ListQuery),
    Endpoint("GET", "/groups/{group}", "A group: lag, members.", groups.show, groups.GroupDetail),
    Endpoint(
        "DELETE", "/groups/{group}", "Delete a group without members.", groups.delete, status=NO_CONTENT
    ),
    Endpoint(
        "POST", "/groups/{group}/reset", "Move what a group without members has committed.", groups.reset,
        groups.ResetPlan, body=groups.Reset,
    ),
    Endpoint("GET", "/brokers", "Brokers that are there.", brokers.list_all, brokers.ClusterNodes),
    Endpoint(
        "GET", "/brokers/{broker}/configs", "Settings of a broker.", configs.show_of_broker, configs.Configs
    ),
    Endpoint(
        "PATCH", "/brokers/{broker}/configs", "Change settings of a broker.", configs.change_of_broker,
        configs.ChangedConfigs, body=configs.ConfigChanges,
    ),
]  # fmt: skip
