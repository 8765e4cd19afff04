// The steps of tests/compat/guest.py with kafkajs.
const fs = require("fs");
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");
const Lz4Codec = require("kafkajs-lz4");
const SnappyCodec = require("kafkajs-snappy");
const zstd = require("@bokuweb/zstd-wasm");

// Codecs other than gzip are plugins. The one for zstd that kafkajs names does not build with Node 20.
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = new Lz4Codec().codec;
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

const codecs = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4", zstd: "ZSTD" };
const options = JSON.parse(process.argv[3]);
const { topic, count } = options;
const kafka = new Kafka({
  clientId: "kafkajs",
  brokers: options.bootstrap.split(","),
  logLevel: logLevel.ERROR,
  retry: { retries: 30, maxRetryTime: 1000 },
  ...(options.user && {
    ssl: { ca: [fs.readFileSync(options.ca)] },
    sasl: { mechanism: "scram-sha-512", username: options.user, password: options.password },
  }),
});

const say = (line) => console.log(JSON.stringify(line));
const text = (bytes) => (bytes === null ? null : bytes.toString());
const inputEnds = new Promise((resolve) => process.stdin.on("end", resolve).resume());
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function connected(client, use) {
  await client.connect();
  await use(client);
  await client.disconnect();
}

async function produce() {
  const messages = [];
  for (let n = 0; n < 100; n++) {
    messages.push({ key: `key-${n}`, value: `value-${n} `.repeat(20), headers: { number: `${n}` } });
  }
  messages.push({ key: "key-0", value: null });
  const compression = CompressionTypes[codecs[options.codec]];
  await connected(kafka.producer({ idempotent: true }), (producer) => producer.send({ topic, messages, compression }));
}

async function consume() {
  const readUncommitted = options.isolation !== "read_committed";
  const groupId = `reader-${process.pid}-${Date.now()}`;
  await connected(kafka.consumer({ groupId, readUncommitted }), async (consumer) => {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    let read = 0;
    await new Promise((resolve) => {
      const eachMessage = async ({ message }) => {
        const headers = Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, text(value)]));
        say({ key: text(message.key), value: text(message.value), headers });
        if (++read === count) resolve();
      };
      consumer.run({ eachMessage });
    });
  });
}

async function member() {
  await connected(kafka.consumer({ groupId: options.group }), async (consumer) => {
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      say({ partitions: payload.memberAssignment[topic] || [] });
    });
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => say({ value: text(message.value) }) });
    await inputEnds;
  });
}

async function times() {
  await connected(kafka.admin(), async (admin) => {
    const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, options.timestamp);
    say({ offset: Number(offset) });
  });
}

async function administer() {
  await connected(kafka.admin(), async (admin) => {
    await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] });
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
    const configEntries = [{ name: "retention.ms", value: "3600000" }];
    await admin.alterConfigs({ resources: [{ ...resource, configEntries }] });
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const described = await admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] });
    const listed = (await admin.listTopics()).includes(topic);
    await admin.deleteTopics({ topics: [topic] });
    const deleted = !(await admin.listTopics()).includes(topic);
    const retention = described.resources[0].configEntries[0].configValue;
    say({ partitions: topics[0].partitions.length, retention, listed, deleted });
  });
}

async function steady() {
  await connected(kafka.producer({ idempotent: true }), async (producer) => {
    for (let n = 0; n < count; n++) {
      await producer.send({ topic, messages: [{ value: `${n}` }] });
      say({ acked: n });
      await pause(3);
    }
  });
}

const transactional = (transactionalId) =>
  kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });

async function transactions() {
  await connected(transactional(`of-${topic}`), async (producer) => {
    for (const name of ["committed", "aborted"]) {
      const transaction = await producer.transaction();
      for (let n = 0; n < 10; n++) {
        await transaction.send({ topic, messages: [{ value: `${name}-${n}` }] });
      }
      await (name === "committed" ? transaction.commit() : transaction.abort());
    }
  });
}

async function copy() {
  await connected(transactional(`copies-${topic}`), async (producer) => {
    await connected(kafka.consumer({ groupId: options.group, readUncommitted: false }), async (consumer) => {
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      let copied = 0;
      await new Promise((resolve) => {
        const eachBatch = async ({ batch }) => {
          const transaction = await producer.transaction();
          const messages = batch.messages.map(({ value }) => ({ value }));
          await transaction.send({ topic: options.target, messages });
          const offset = `${Number(batch.lastOffset()) + 1}`;
          const partitions = [{ partition: batch.partition, offset }];
          await transaction.sendOffsets({ consumerGroupId: options.group, topics: [{ topic, partitions }] });
          await transaction.commit();
          if ((copied += batch.messages.length) === count) resolve();
        };
        consumer.run({ autoCommit: false, partitionsConsumedConcurrently: 1, eachBatch });
      });
    });
  });
}

const steps = { produce, consume, member, times, admin: administer, steady, transactions, copy };
zstd.init().then(steps[process.argv[2]]).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
