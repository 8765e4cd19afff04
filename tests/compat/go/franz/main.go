// The steps of tests/compat/guest.py with franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"compat/step"
)

var ctx = context.Background()

func client(o step.Options, options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(o.Brokers()...), kgo.ClientID("franz-go"),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)))
	if o.User != "" {
		options = append(options, kgo.DialTLSConfig(o.TLS()),
			kgo.SASL(scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism()))
	}
	made, err := kgo.NewClient(options...)
	step.Must(err)
	return made
}

func codec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

func produce(o step.Options) {
	producer := client(o, kgo.ProducerBatchCompression(codec(o.Codec)), kgo.DefaultProduceTopic(o.Topic))
	defer producer.Close()
	var records []*kgo.Record
	for _, sent := range step.Records() {
		record := &kgo.Record{Key: []byte(sent.Key), Value: step.Bytes(sent.Value)}
		for name, value := range sent.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		records = append(records, record)
	}
	step.Must(producer.ProduceSync(ctx, records...).FirstErr())
}

func consume(o step.Options) {
	level := kgo.ReadUncommitted()
	if o.Isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	consumer := client(o, kgo.ConsumeTopics(o.Topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	for count := 0; count < o.Count; {
		fetches := consumer.PollFetches(ctx)
		step.Must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			headers := map[string]string{}
			for _, header := range record.Headers {
				headers[header.Key] = string(header.Value)
			}
			step.SayAll(step.Record{Key: string(record.Key), Value: step.Text(record.Value), Headers: headers})
			count++
		})
	}
}

func member(o step.Options) {
	held := map[int32]bool{}
	var lock sync.Mutex
	change := func(value bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			for _, number := range changed[o.Topic] {
				if delete(held, number); value {
					held[number] = true
				}
			}
			numbers := []int32{}
			for number := range held {
				numbers = append(numbers, number)
			}
			slices.Sort(numbers)
			step.Say("partitions", numbers)
		}
	}
	consumer := client(o, kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	reading, stop := context.WithCancel(ctx)
	step.UntilInputEnds(stop)
	for reading.Err() == nil {
		fetches := consumer.PollFetches(reading)
		fetches.EachRecord(func(record *kgo.Record) { step.Say("value", string(record.Value)) })
		_ = consumer.CommitUncommittedOffsets(ctx)
	}
	consumer.Close()
}

func times(o step.Options) {
	admin := kadm.NewClient(client(o))
	defer admin.Close()
	offsets, err := admin.ListOffsetsAfterMilli(ctx, o.Timestamp, o.Topic)
	step.Must(err)
	offset, _ := offsets.Lookup(o.Topic, 0)
	step.Say("offset", offset.Offset)
}

func admin(o step.Options) {
	admin := kadm.NewClient(client(o))
	defer admin.Close()
	_, err := admin.CreateTopic(ctx, 3, 1, nil, o.Topic)
	step.Must(err)
	hour := "3600000"
	changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &hour}}
	_, err = admin.AlterTopicConfigs(ctx, changes, o.Topic)
	step.Must(err)
	topics, err := admin.ListTopics(ctx)
	step.Must(err)
	configs, err := admin.DescribeTopicConfigs(ctx, o.Topic)
	step.Must(err)
	var retention string
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" {
			retention = config.MaybeValue()
		}
	}
	_, err = admin.DeleteTopic(ctx, o.Topic)
	step.Must(err)
	gone := false
	for range 100 { // the client keeps what it knows of topics for some seconds
		after, err := admin.ListTopics(ctx)
		step.Must(err)
		if gone = !after.Has(o.Topic); gone {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	step.SayAll(map[string]any{"partitions": len(topics[o.Topic].Partitions), "retention": retention,
		"listed": topics.Has(o.Topic), "deleted": gone})
}

func steady(o step.Options) {
	producer := client(o, kgo.DefaultProduceTopic(o.Topic))
	defer producer.Close()
	for number := range o.Count {
		step.Must(producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(number))).FirstErr())
		step.Say("acked", number)
		time.Sleep(3 * time.Millisecond)
	}
}

func transactions(o step.Options) {
	producer := client(o, kgo.TransactionalID("of-"+o.Topic), kgo.DefaultProduceTopic(o.Topic))
	defer producer.Close()
	for _, end := range []struct {
		name string
		how  kgo.TransactionEndTry
	}{{"committed", kgo.TryCommit}, {"aborted", kgo.TryAbort}} {
		step.Must(producer.BeginTransaction())
		for number := range 10 {
			record := kgo.StringRecord(fmt.Sprintf("%s-%d", end.name, number))
			step.Must(producer.ProduceSync(ctx, record).FirstErr())
		}
		step.Must(producer.EndTransaction(ctx, end.how))
	}
}

func copyTopic(o step.Options) {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(o.Brokers()...), kgo.TransactionalID("copies-"+o.Topic),
		kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic), kgo.DefaultProduceTopic(o.Target), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	step.Must(err)
	defer session.Close()
	for count := 0; count < o.Count; {
		fetches := session.PollFetches(ctx)
		step.Must(fetches.Err())
		step.Must(session.Begin())
		read := fetches.NumRecords()
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Value: record.Value}, func(_ *kgo.Record, err error) { step.Must(err) })
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		step.Must(err)
		if committed {
			count += read
		}
	}
}

func main() {
	step.Run(map[string]func(step.Options){
		"produce": produce, "consume": consume, "member": member, "times": times, "admin": admin,
		"steady": steady, "transactions": transactions, "copy": copyTopic,
	})
}
