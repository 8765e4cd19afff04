//! The steps of tests/compat/guest.py with rdkafka, librdkafka for Rust.
use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::util::Timeout;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{json, Value};
use tokio::io::AsyncReadExt;

const WITHIN: Duration = Duration::from_secs(60);

struct Options(Value);

impl Options {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or("")
    }

    fn count(&self) -> u64 {
        self.0["count"].as_u64().unwrap_or(0)
    }

    fn config(&self) -> ClientConfig {
        let mut made = ClientConfig::new();
        made.set("bootstrap.servers", self.text("bootstrap")).set("client.id", "rust-rdkafka");
        if !self.text("user").is_empty() {
            made.set("security.protocol", "SASL_SSL").set("sasl.mechanism", "SCRAM-SHA-512");
            made.set("sasl.username", self.text("user")).set("sasl.password", self.text("password"));
            made.set("ssl.ca.location", self.text("ca"));
        }
        made
    }

    fn consumer(&self, group: &str) -> ClientConfig {
        let mut made = self.config();
        made.set("group.id", group).set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
        made
    }
}

/// Says what partitions it has whenever they change.
struct Saying;

impl ClientContext for Saying {}

impl ConsumerContext for Saying {
    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, _: &Rebalance<'_>) {
        let held = consumer.assignment().expect("an assignment");
        let numbers: Vec<i32> = held.elements().iter().map(|element| element.partition()).collect();
        println!("{}", json!({ "partitions": numbers }));
    }
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

async fn produce(options: &Options) {
    let producer: FutureProducer = options.config().set("compression.codec", options.text("codec")).create().unwrap();
    let topic = options.text("topic");
    for number in 0..100 {
        let (key, value) = (format!("key-{number}"), format!("value-{number} ").repeat(20));
        let number = number.to_string();
        let headers = OwnedHeaders::new().insert(Header { key: "number", value: Some(&number) });
        let record = FutureRecord::to(topic).key(&key).payload(&value).headers(headers);
        producer.send(record, WITHIN).await.unwrap();
    }
    producer.send(FutureRecord::<str, [u8]>::to(topic).key("key-0"), WITHIN).await.unwrap();
}

async fn consume(options: &Options) {
    let level = if options.text("isolation").is_empty() { "read_uncommitted" } else { options.text("isolation") };
    let consumer: StreamConsumer = options.consumer("unused").set("isolation.level", level).create().unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(options.text("topic"), 0, Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    for _ in 0..options.count() {
        let message = consumer.recv().await.unwrap();
        let mut headers = BTreeMap::new();
        for header in message.headers().into_iter().flat_map(|headers| headers.iter()) {
            headers.insert(header.key.to_string(), text(header.value));
        }
        println!("{}", json!({"key": text(message.key()), "value": text(message.payload()), "headers": headers}));
    }
}

async fn member(options: &Options) {
    let consumer: StreamConsumer<Saying> =
        options.consumer(options.text("group")).create_with_context(Saying).unwrap();
    consumer.subscribe(&[options.text("topic")]).unwrap();
    let (mut input, mut byte) = (tokio::io::stdin(), [0]);
    loop {
        tokio::select! {
            _ = input.read(&mut byte) => break,
            message = consumer.recv() => {
                if let Ok(message) = message { // errors say that a broker is away
                    println!("{}", json!({ "value": text(message.payload()) }));
                    consumer.commit_message(&message, CommitMode::Async).unwrap();
                }
            }
        }
    }
    let _ = consumer.commit_consumer_state(CommitMode::Sync); // an error if there is nothing new
}

async fn times(options: &Options) {
    let consumer: BaseConsumer = options.consumer("unused").create().unwrap();
    let mut asked = TopicPartitionList::new();
    let timestamp = options.0["timestamp"].as_i64().unwrap();
    asked.add_partition_offset(options.text("topic"), 0, Offset::Offset(timestamp)).unwrap();
    let offsets = consumer.offsets_for_times(asked, WITHIN).unwrap();
    println!("{}", json!({ "offset": offsets.elements()[0].offset().to_raw() }));
}

async fn administer(options: &Options) {
    let topic = options.text("topic");
    let admin: AdminClient<DefaultClientContext> = options.config().create().unwrap();
    let how = AdminOptions::new().operation_timeout(Some(Timeout::After(WITHIN)));
    let new = NewTopic::new(topic, 3, TopicReplication::Fixed(1));
    admin.create_topics([&new], &how).await.unwrap()[0].as_ref().unwrap();
    let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("retention.ms", "3600000");
    admin.alter_configs([&change], &how).await.unwrap()[0].as_ref().unwrap();
    let listing = |name: &str| {
        let metadata = admin.inner().fetch_metadata(None, WITHIN).unwrap();
        metadata.topics().iter().find(|topic| topic.name() == name).map(|topic| topic.partitions().len())
    };
    let partitions = listing(topic);
    let described = admin.describe_configs([&ResourceSpecifier::Topic(topic)], &how).await.unwrap();
    let retention = described[0].as_ref().unwrap().entry_map()["retention.ms"].value.clone();
    admin.delete_topics(&[topic], &how).await.unwrap()[0].as_ref().unwrap();
    let said = json!({"partitions": partitions, "retention": retention, "listed": partitions.is_some(),
        "deleted": listing(topic).is_none()});
    println!("{said}");
}

async fn steady(options: &Options) {
    let producer: FutureProducer = options.config().set("enable.idempotence", "true").create().unwrap();
    for number in 0..options.count() {
        let value = number.to_string();
        let record = FutureRecord::<str, str>::to(options.text("topic")).payload(&value);
        producer.send(record, WITHIN).await.unwrap();
        println!("{}", json!({ "acked": number }));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

fn transactional(options: &Options, name: &str) -> FutureProducer {
    let id = format!("{name}-{}", options.text("topic"));
    let producer: FutureProducer = options.config().set("transactional.id", &id).create().unwrap();
    producer.init_transactions(WITHIN).unwrap();
    producer
}

async fn transactions(options: &Options) {
    let producer = transactional(options, "of");
    for name in ["committed", "aborted"] {
        producer.begin_transaction().unwrap();
        for number in 0..10 {
            let value = format!("{name}-{number}");
            let record = FutureRecord::<str, str>::to(options.text("topic")).payload(&value);
            producer.send(record, WITHIN).await.unwrap();
        }
        if name == "committed" {
            producer.commit_transaction(WITHIN).unwrap();
        } else {
            producer.abort_transaction(WITHIN).unwrap();
        }
    }
}

async fn copy(options: &Options) {
    let producer = transactional(options, "copies");
    let consumer: StreamConsumer = options.consumer(options.text("group")).create().unwrap();
    consumer.subscribe(&[options.text("topic")]).unwrap();
    for _ in 0..options.count() {
        let message = consumer.recv().await.unwrap();
        producer.begin_transaction().unwrap();
        let record = FutureRecord::<[u8], [u8]>::to(options.text("target")).payload(message.payload().unwrap());
        producer.send(record, WITHIN).await.unwrap();
        let (positions, group) = (consumer.position().unwrap(), consumer.group_metadata().unwrap());
        producer.send_offsets_to_transaction(&positions, &group, WITHIN).unwrap();
        producer.commit_transaction(WITHIN).unwrap();
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let options = Options(serde_json::from_str(&arguments[2]).unwrap());
    match arguments[1].as_str() {
        "produce" => produce(&options).await,
        "consume" => consume(&options).await,
        "member" => member(&options).await,
        "times" => times(&options).await,
        "admin" => administer(&options).await,
        "steady" => steady(&options).await,
        "transactions" => transactions(&options).await,
        "copy" => copy(&options).await,
        other => panic!("{other}"),
    }
    std::process::exit(0); // the task that reads standard input would be waited for
}
