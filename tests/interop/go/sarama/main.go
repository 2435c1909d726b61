// Sarama's transforming group: `sarama BOOTSTRAP NAME` copies NAME-source to NAME-sink, each poll in one transaction,
// for ever. It exits at the first error; whoever supervises it starts it again.
package main

import (
	"context"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type transform struct {
	producer sarama.SyncProducer
	name     string
}

func (transform) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (transform) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (t transform) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		must(t.producer.BeginTxn())
		for {
			value := sarama.ByteEncoder(message.Value)
			_, _, err := t.producer.SendMessage(&sarama.ProducerMessage{Topic: t.name + "-sink", Value: value})
			must(err)
			must(t.producer.AddMessageToTxn(message, t.name, nil))
			if len(claim.Messages()) == 0 {
				break
			}
			message = <-claim.Messages()
		}
		must(t.producer.CommitTxn())
	}
	return nil
}

func main() {
	bootstrap, name := []string{os.Args[1]}, os.Args[2]
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = name
	config.Producer.Transaction.Timeout = 10 * time.Second
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 2 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.MaxProcessingTime = time.Minute
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	must(err)
	group, err := sarama.NewConsumerGroup(bootstrap, name, config)
	must(err)
	for {
		must(group.Consume(context.Background(), []string{name + "-source"}, transform{producer, name}))
	}
}

func must(err error) {
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}
