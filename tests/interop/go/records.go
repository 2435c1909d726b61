package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// records: each codec's batches come back in order, with keys, headers and null values; idempotent by default.
func records(s scene) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := s.topic(name, 1)
		client := s.client(kgo.ProducerBatchCompression(codecs[name]), kgo.DefaultProduceTopic(topic))
		count := 2000
		for number := range count {
			record := &kgo.Record{
				Key:     fmt.Appendf(nil, "key %d", number),
				Value:   fmt.Appendf(nil, "the same text again and again %d", number),
				Headers: []kgo.RecordHeader{{Key: "number", Value: fmt.Append(nil, number)}},
			}
			client.Produce(s.context, record, func(_ *kgo.Record, err error) { must(err) })
		}
		client.Produce(s.context, &kgo.Record{Key: []byte("null")}, func(_ *kgo.Record, err error) { must(err) })
		must(client.Flush(s.context))
		client.Close()
		reader := s.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		next := 0
		for next <= count {
			fetches := reader.PollFetches(s.context)
			must(fetches.Err())
			fetches.EachRecord(func(record *kgo.Record) {
				expect(record.Offset == int64(next), "offset %d, not %d", record.Offset, next)
				if next == count {
					expect(record.Value == nil && string(record.Key) == "null", "the null value is %q", record.Value)
				} else {
					expect(string(record.Key) == fmt.Sprintf("key %d", next), "key %q at %d", record.Key, next)
					expect(string(record.Headers[0].Value) == fmt.Sprint(next), "header at %d", next)
					expect(strings.HasSuffix(string(record.Value), fmt.Sprintf(" %d", next)), "value at %d", next)
				}
				next++
			})
		}
		reader.Close()
		fmt.Printf("%s: %d in order\n", name, next)
	}
}

// transactions: over three partitions; only what was committed reaches read_committed, all of it read_uncommitted.
func transactions(s scene) {
	topic := s.topic("transactions", 3)
	client := s.client(
		kgo.TransactionalID(s.name), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	for round := range 6 {
		must(client.BeginTransaction())
		for partition := range int32(3) {
			record := &kgo.Record{Partition: partition, Value: fmt.Appendf(nil, "%d-%d", round, partition)}
			must(client.ProduceSync(s.context, record).FirstErr())
		}
		must(client.EndTransaction(s.context, kgo.TransactionEndTry(round%2 == 0)))
	}
	client.Close()
	for _, level := range []struct {
		name  string
		level kgo.IsolationLevel
	}{{"read_committed", kgo.ReadCommitted()}, {"read_uncommitted", kgo.ReadUncommitted()}} {
		values := s.read(topic, level.level)
		sort.Strings(values)
		fmt.Println(level.name, strings.Join(values, " "))
	}
}

// fencing: a second client with the same transactional id ends the first one's transaction and its right to write.
func fencing(s scene) {
	topic := s.topic("fencing", 1)
	zombie := s.client(kgo.TransactionalID(s.name), kgo.DefaultProduceTopic(topic))
	must(zombie.BeginTransaction())
	must(zombie.ProduceSync(s.context, kgo.StringRecord("zombie")).FirstErr())
	successor := s.client(kgo.TransactionalID(s.name), kgo.DefaultProduceTopic(topic))
	must(successor.BeginTransaction())
	must(successor.ProduceSync(s.context, kgo.StringRecord("successor")).FirstErr())
	err := zombie.EndTransaction(s.context, kgo.TryCommit)
	fmt.Println("fenced", err == kerr.ProducerFenced || err == kerr.InvalidProducerEpoch || err == kerr.InvalidTxnState)
	must(successor.EndTransaction(s.context, kgo.TryCommit))
	successor.Close()
	zombie.Close()
	fmt.Println("read_committed", strings.Join(s.read(topic, kgo.ReadCommitted()), " "))
}
