// The steps of tests/compat/guest.py with kafka-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"

	"compat/step"
)

var ctx = context.Background()

func transport(o step.Options) *kafka.Transport {
	made := &kafka.Transport{}
	if o.User != "" {
		mechanism, err := scram.Mechanism(scram.SHA512, o.User, o.Password)
		step.Must(err)
		made.TLS, made.SASL = o.TLS(), mechanism
	}
	return made
}

func dialer(o step.Options) *kafka.Dialer {
	made := &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true}
	if o.User != "" {
		made.TLS, made.SASLMechanism = o.TLS(), transport(o).SASL
	}
	return made
}

func writer(o step.Options) *kafka.Writer {
	return &kafka.Writer{Addr: kafka.TCP(o.Brokers()...), Topic: o.Topic, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond, Transport: transport(o)}
}

func produce(o step.Options) {
	producer := writer(o)
	defer producer.Close()
	producer.Compression = map[string]kafka.Compression{
		"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}[o.Codec]
	var messages []kafka.Message
	for _, sent := range step.Records() {
		message := kafka.Message{Key: []byte(sent.Key), Value: step.Bytes(sent.Value)}
		for name, value := range sent.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: name, Value: []byte(value)})
		}
		messages = append(messages, message)
	}
	step.Must(producer.WriteMessages(ctx, messages...))
}

func consume(o step.Options) {
	settings := kafka.ReaderConfig{Brokers: o.Brokers(), Topic: o.Topic, Dialer: dialer(o), MaxWait: time.Second}
	if o.Isolation == "read_committed" {
		settings.IsolationLevel = kafka.ReadCommitted
	}
	reader := kafka.NewReader(settings)
	defer reader.Close()
	for range o.Count {
		message, err := reader.ReadMessage(ctx)
		step.Must(err)
		headers := map[string]string{}
		for _, header := range message.Headers {
			headers[header.Key] = string(header.Value)
		}
		step.SayAll(step.Record{Key: string(message.Key), Value: step.Text(message.Value), Headers: headers})
	}
}

func member(o step.Options) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: o.Group, Brokers: o.Brokers(),
		Topics: []string{o.Topic}, StartOffset: kafka.FirstOffset})
	step.Must(err)
	reading, stop := context.WithCancel(ctx)
	step.UntilInputEnds(stop)
	for reading.Err() == nil {
		generation, err := group.Next(reading)
		if err != nil {
			continue // it returns errors while brokers are away, and waits between tries
		}
		numbers := []int{}
		for _, assigned := range generation.Assignments[o.Topic] {
			numbers = append(numbers, assigned.ID)
			generation.Start(func(ctx context.Context) { read(ctx, o, generation, assigned) })
		}
		step.Say("partitions", numbers)
	}
	step.Must(group.Close())
}

func read(ctx context.Context, o step.Options, generation *kafka.Generation, assigned kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: o.Brokers(), Topic: o.Topic, Partition: assigned.ID, MaxWait: 200 * time.Millisecond})
	defer reader.Close()
	step.Must(reader.SetOffset(assigned.Offset))
	for {
		message, err := reader.ReadMessage(ctx)
		if errors.Is(err, kafka.ErrGenerationEnded) || ctx.Err() != nil {
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue // so it is after some tries to reach a broker that is away
		}
		step.Say("value", string(message.Value))
		offsets := map[string]map[int]int64{o.Topic: {assigned.ID: message.Offset + 1}}
		for generation.CommitOffsets(offsets) != nil && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func client(o step.Options) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(o.Brokers()...), Transport: transport(o)}
}

func times(o step.Options) {
	asked := kafka.TimeOffsetOf(0, time.UnixMilli(o.Timestamp))
	answer, err := client(o).ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{o.Topic: {asked}}})
	step.Must(err)
	for offset := range answer.Topics[o.Topic][0].Offsets {
		step.Say("offset", offset)
	}
}

func admin(o step.Options) {
	admin := client(o)
	created, err := admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: o.Topic, NumPartitions: 3, ReplicationFactor: 1}}})
	step.Must(errors.Join(err, created.Errors[o.Topic]))
	_, err = admin.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: o.Topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
				Name: "retention.ms", Value: "3600000", ConfigOperation: kafka.ConfigOperationSet}}}}})
	step.Must(err)
	before := topics(admin)
	described, err := admin.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: o.Topic, ConfigNames: []string{"retention.ms"}}}})
	step.Must(err)
	_, err = admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{o.Topic}})
	step.Must(err)
	_, listed := before[o.Topic]
	kept := true
	for range 100 { // the client keeps what it knows of topics for some seconds
		if _, kept = topics(admin)[o.Topic]; !kept {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	step.SayAll(map[string]any{"partitions": before[o.Topic], "listed": listed, "deleted": !kept,
		"retention": described.Resources[0].ConfigEntries[0].ConfigValue})
}

func topics(admin *kafka.Client) map[string]int {
	metadata, err := admin.Metadata(ctx, &kafka.MetadataRequest{})
	step.Must(err)
	counts := map[string]int{}
	for _, topic := range metadata.Topics {
		counts[topic.Name] = len(topic.Partitions)
	}
	return counts
}

func steady(o step.Options) {
	producer := writer(o)
	defer producer.Close()
	for number := range o.Count {
		message := kafka.Message{Value: []byte(fmt.Sprint(number))}
		for producer.WriteMessages(ctx, message) != nil { // it gives up after ten tries
			time.Sleep(100 * time.Millisecond)
		}
		step.Say("acked", number)
		time.Sleep(3 * time.Millisecond)
	}
}

func main() {
	step.Run(map[string]func(step.Options){
		"produce": produce, "consume": consume, "member": member, "times": times, "admin": admin, "steady": steady,
	})
}
