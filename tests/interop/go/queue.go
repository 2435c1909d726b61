package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// queue: three members of a share group work off what is loaded, until the broker says that all is acknowledged.
func queue(s scene) {
	const count = 6000
	topic := s.topic("queue", 3)
	client := s.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(1024))
	defer client.Close()
	admin := kadm.NewClient(client)
	starts := kadm.Offsets{}
	for partition := range int32(3) {
		starts.Add(kadm.Offset{Topic: topic, Partition: partition})
	}
	started, err := admin.AlterShareGroupOffsets(s.context, s.name, starts)
	must(err)
	must(started.Error())
	for number := range count {
		client.Produce(s.context, kgo.StringRecord(fmt.Sprint(number)), func(_ *kgo.Record, err error) { must(err) })
	}
	must(client.Flush(s.context))
	fmt.Println("loaded")
	var lock sync.Mutex
	delivered := map[string]bool{}
	isDone := func() bool {
		lock.Lock()
		defer lock.Unlock()
		if len(delivered) < count {
			return false
		}
		groups, err := admin.DescribeShareGroupOffsets(s.context, s.name)
		if err != nil || groups.Error() != nil {
			return false
		}
		lag, partitions := int64(0), 0
		groups[s.name].Offsets.Each(func(offset kadm.ShareOffset) { lag, partitions = lag+offset.Lag, partitions+1 })
		return partitions == 3 && lag == 0
	}
	var working sync.WaitGroup
	for range 3 {
		working.Go(func() {
			member := s.client(
				kgo.ConsumeTopics(topic), kgo.ShareGroup(s.name), kgo.ShareMaxRecords(10), kgo.ShareMaxRecordsStrict(),
			)
			defer member.Close()
			for !isDone() {
				expect(s.context.Err() == nil, "not done in time")
				s.work(member, func(record *kgo.Record) {
					lock.Lock()
					defer lock.Unlock()
					delivered[string(record.Value)] = true
				})
			}
		})
	}
	working.Wait()
	fmt.Printf("%d records, each delivered, all acknowledged\n", len(delivered))
}

// work accepts one poll's records; while the broker is away, neither a poll nor an acknowledgement waits for long.
func (s scene) work(member *kgo.Client, done func(*kgo.Record)) {
	brief, cancel := context.WithTimeout(s.context, 2*time.Second)
	defer cancel()
	member.PollFetches(brief).EachRecord(func(record *kgo.Record) {
		done(record)
		record.Ack(kgo.AckAccept)
	})
	_ = member.FlushAcks(brief)
}
