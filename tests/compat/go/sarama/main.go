// The steps of tests/compat/guest.py with sarama.
package main

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"compat/step"
)

func config(o step.Options) *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Producer.Return.Successes = true
	made.Producer.Retry.Max = 100
	made.Producer.Retry.Backoff = 200 * time.Millisecond
	made.Metadata.Retry.Max = 50
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	if o.User != "" {
		made.Net.TLS.Enable, made.Net.TLS.Config = true, o.TLS()
		made.Net.SASL.Enable, made.Net.SASL.User, made.Net.SASL.Password = true, o.User, o.Password
		made.Net.SASL.Mechanism = sarama.SASLTypeSCRAMSHA512
		made.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{} }
	}
	return made
}

// scramClient is what sarama leaves to its users.
type scramClient struct{ *scram.ClientConversation }

func (c *scramClient) Begin(user, password, authzID string) error {
	made, err := scram.HashGeneratorFcn(sha512.New).NewClient(user, password, authzID)
	if err == nil {
		c.ClientConversation = made.NewConversation()
	}
	return err
}

func idempotent(made *sarama.Config) *sarama.Config {
	made.Producer.Idempotent = true
	made.Net.MaxOpenRequests = 1
	return made
}

func produce(o step.Options) {
	made := idempotent(config(o))
	made.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[o.Codec]
	producer, err := sarama.NewSyncProducer(o.Brokers(), made)
	step.Must(err)
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, sent := range step.Records() {
		message := &sarama.ProducerMessage{Topic: o.Topic, Key: sarama.StringEncoder(sent.Key)}
		if sent.Value != nil {
			message.Value = sarama.StringEncoder(*sent.Value)
		}
		for name, value := range sent.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte(value)})
		}
		messages = append(messages, message)
	}
	step.Must(producer.SendMessages(messages))
}

func consume(o step.Options) {
	made := config(o)
	if o.Isolation == "read_committed" {
		made.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(o.Brokers(), made)
	step.Must(err)
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(o.Topic, 0, sarama.OffsetOldest)
	step.Must(err)
	defer partition.Close()
	for range o.Count {
		message := <-partition.Messages()
		headers := map[string]string{}
		for _, header := range message.Headers {
			headers[string(header.Key)] = string(header.Value)
		}
		step.SayAll(step.Record{Key: string(message.Key), Value: step.Text(message.Value), Headers: headers})
	}
}

type handler struct {
	topic  string
	handle func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)
}

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	step.Say("partitions", append([]int32{}, session.Claims()[h.topic]...))
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		h.handle(session, message)
	}
	return nil
}

func member(o step.Options) {
	made := config(o)
	made.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	group, err := sarama.NewConsumerGroup(o.Brokers(), o.Group, made)
	step.Must(err)
	reading, stop := context.WithCancel(context.Background())
	step.UntilInputEnds(stop)
	handling := handler{o.Topic, func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		step.Say("value", string(message.Value))
		session.MarkMessage(message, "") // committed once a second, and in the end
	}}
	for reading.Err() == nil {
		if err := group.Consume(reading, []string{o.Topic}, handling); err != nil {
			time.Sleep(200 * time.Millisecond) // as its example does: it returns errors while brokers are away
		}
	}
	step.Must(group.Close())
}

func times(o step.Options) {
	client, err := sarama.NewClient(o.Brokers(), config(o))
	step.Must(err)
	defer client.Close()
	offset, err := client.GetOffset(o.Topic, 0, o.Timestamp)
	step.Must(err)
	step.Say("offset", offset)
}

func admin(o step.Options) {
	admin, err := sarama.NewClusterAdmin(o.Brokers(), config(o))
	step.Must(err)
	defer admin.Close()
	step.Must(admin.CreateTopic(o.Topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))
	hour := "3600000"
	changes := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &hour},
	}
	step.Must(admin.IncrementalAlterConfig(sarama.TopicResource, o.Topic, changes, false))
	topics, err := admin.ListTopics()
	step.Must(err)
	configs, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: o.Topic, ConfigNames: []string{"retention.ms"}})
	step.Must(err)
	step.Must(admin.DeleteTopic(o.Topic))
	after, err := admin.ListTopics()
	step.Must(err)
	_, listed := topics[o.Topic]
	_, kept := after[o.Topic]
	step.SayAll(map[string]any{"partitions": topics[o.Topic].NumPartitions, "retention": configs[0].Value,
		"listed": listed, "deleted": !kept})
}

func steady(o step.Options) {
	producer, err := sarama.NewSyncProducer(o.Brokers(), idempotent(config(o)))
	step.Must(err)
	defer producer.Close()
	for number := range o.Count {
		message := &sarama.ProducerMessage{Topic: o.Topic, Value: sarama.StringEncoder(fmt.Sprint(number))}
		_, _, err := producer.SendMessage(message)
		step.Must(err)
		step.Say("acked", number)
		time.Sleep(3 * time.Millisecond)
	}
}

func transactional(o step.Options, name string) sarama.SyncProducer {
	made := idempotent(config(o))
	made.Producer.Transaction.ID = name
	producer, err := sarama.NewSyncProducer(o.Brokers(), made)
	step.Must(err)
	return producer
}

func transactions(o step.Options) {
	producer := transactional(o, "of-"+o.Topic)
	defer producer.Close()
	for _, name := range []string{"committed", "aborted"} {
		step.Must(producer.BeginTxn())
		for number := range 10 {
			value := sarama.StringEncoder(fmt.Sprintf("%s-%d", name, number))
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: o.Topic, Value: value})
			step.Must(err)
		}
		if name == "committed" {
			step.Must(producer.CommitTxn())
		} else {
			step.Must(producer.AbortTxn())
		}
	}
}

func copyTopic(o step.Options) {
	producer := transactional(o, "copies-"+o.Topic)
	defer producer.Close()
	made := config(o)
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	made.Consumer.Offsets.AutoCommit.Enable = false
	group, err := sarama.NewConsumerGroup(o.Brokers(), o.Group, made)
	step.Must(err)
	reading, stop := context.WithCancel(context.Background())
	copied := make(chan struct{}, 1) // one at a time: the producer has one transaction
	copied <- struct{}{}
	count := 0
	handling := handler{o.Topic, func(_ sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		<-copied
		step.Must(producer.BeginTxn())
		_, _, err := producer.SendMessage(
			&sarama.ProducerMessage{Topic: o.Target, Value: sarama.ByteEncoder(message.Value)})
		step.Must(err)
		step.Must(producer.AddMessageToTxn(message, o.Group, nil))
		step.Must(producer.CommitTxn())
		if count++; count == o.Count {
			stop()
		}
		copied <- struct{}{}
	}}
	for reading.Err() == nil {
		if err := group.Consume(reading, []string{o.Topic}, handling); err != nil && !errors.Is(err, context.Canceled) {
			step.Must(err)
		}
	}
	step.Must(group.Close())
}

func main() {
	step.Run(map[string]func(step.Options){
		"produce": produce, "consume": consume, "member": member, "times": times, "admin": admin,
		"steady": steady, "transactions": transactions, "copy": copyTopic,
	})
}
