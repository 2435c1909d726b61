// kafka-go's reader of a group and its writer: `kafkago BOOTSTRAP NAME` copies NAME-source to NAME-sink for ever, at
// least once (its writer has no transactions). It exits at the first error; whoever supervises it starts it again.
package main

import (
	"context"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	bootstrap, name := os.Args[1], os.Args[2]
	forever := context.Background()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: name, Topic: name + "-source", StartOffset: kafka.FirstOffset,
		IsolationLevel: kafka.ReadCommitted, MaxWait: 200 * time.Millisecond,
		SessionTimeout: 2 * time.Second, HeartbeatInterval: 200 * time.Millisecond,
	})
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: name + "-sink", RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
	}
	for {
		message, err := reader.FetchMessage(forever)
		must(err)
		must(writer.WriteMessages(forever, kafka.Message{Value: message.Value}))
		must(reader.CommitMessages(forever, message))
	}
}

func must(err error) {
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
}
