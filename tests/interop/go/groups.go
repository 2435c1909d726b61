package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// holder is one member of a group, and how many partitions it holds now.
type holder struct {
	client *kgo.Client
	count  atomic.Int32
	lost   atomic.Int32
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

func (s scene) join(topic string, options ...kgo.Opt) *holder {
	member := &holder{}
	add := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.count.Add(int32(sign * len(partitions[topic])))
			if sign < 0 {
				member.lost.Add(int32(len(partitions[topic])))
			}
		}
	}
	options = append(
		options, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(s.name), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(add(1)), kgo.OnPartitionsRevoked(add(-1)), kgo.OnPartitionsLost(add(-1)),
	)
	member.client = s.client(options...)
	polling, stop := context.WithCancel(s.context)
	member.stop = stop
	member.ended.Add(1)
	go func() {
		defer member.ended.Done()
		for polling.Err() == nil {
			member.client.PollFetches(polling)
		}
	}()
	return member
}

func (member *holder) leave() {
	member.stop()
	member.ended.Wait()
	member.client.Close()
}

func (s scene) await(what string, holds func() bool) {
	for !holds() {
		expect(s.context.Err() == nil, "it did not happen in time: %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

// group: three members share six partitions by each of the client's balancers; two leave, one takes over.
func group(s scene) {
	topic := s.topic("shared", 6)
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	base := s.name
	for _, name := range []string{"range", "roundrobin", "sticky", "cooperative-sticky"} {
		s.name = base + "-" + name
		members := make([]*holder, 3)
		for index := range members {
			members[index] = s.join(topic, kgo.Balancers(balancers[name]))
		}
		s.await(name+": shared", func() bool {
			return members[0].count.Load() == 2 && members[1].count.Load() == 2 && members[2].count.Load() == 2
		})
		lost := members[0].lost.Load()
		members[1].leave()
		members[2].leave()
		s.await(name+": taken over", func() bool { return members[0].count.Load() == 6 })
		if name == "cooperative-sticky" {
			fmt.Println("cooperative-sticky: nothing lost while taking over", members[0].lost.Load() == lost)
		}
		members[0].leave()
		fmt.Printf("%s: shared, taken over\n", name)
	}
}

// consumers: the same by KIP-848, where the broker assigns: members hold what they are told, nothing twice.
func consumers(s scene) {
	topic := s.topic("shared", 6)
	base := s.name
	balancers := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "uniform": kgo.StickyBalancer()}
	for _, name := range []string{"range", "uniform"} {
		s.name = base + "-" + name
		members := make([]*holder, 3)
		for index := range members {
			members[index] = s.join(topic, kgo.ServerSideBalancer(), kgo.Balancers(balancers[name]))
		}
		s.await(name+": shared", func() bool {
			return members[0].count.Load() == 2 && members[1].count.Load() == 2 && members[2].count.Load() == 2
		})
		described, err := kadm.NewClient(members[0].client).DescribeConsumerGroups(s.context, s.name)
		must(err)
		group := described[s.name]
		must(group.Err)
		fmt.Printf("%s: %s by %s, %d members\n", name, group.State, group.AssignorName, len(group.Members))
		members[1].leave()
		members[2].leave()
		s.await(name+": taken over", func() bool { return members[0].count.Load() == 6 })
		members[0].leave()
		fmt.Printf("%s: shared, taken over\n", name)
	}
}

// resume: a group goes on where it committed, and a static member keeps its partitions over a restart.
func resume(s scene) {
	topic := s.topic("resume", 1)
	producer := s.client(kgo.DefaultProduceTopic(topic))
	for number := range 10 {
		must(producer.ProduceSync(s.context, kgo.StringRecord(fmt.Sprint(number))).FirstErr())
	}
	producer.Close()
	for _, want := range []int{0, 4} {
		member := s.client(
			kgo.ConsumeTopics(topic), kgo.ConsumerGroup(s.name), kgo.InstanceID("static"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		)
		polled := member.PollRecords(s.context, 4)
		must(polled.Err())
		got := polled.Records()
		expect(string(got[0].Value) == fmt.Sprint(want), "resumed at %s, not %d", got[0].Value, want)
		must(member.CommitRecords(s.context, got...))
		fmt.Printf("from %s to %s\n", got[0].Value, got[len(got)-1].Value)
		member.Close()
	}
	client := s.client()
	defer client.Close()
	described, err := kadm.NewClient(client).DescribeGroups(s.context, s.name)
	must(err)
	members := described[s.name].Members
	expect(len(members) == 1 && members[0].InstanceID != nil, "the static member did not stay: %v", described)
	fmt.Println("static member stays:", *members[0].InstanceID)
}

// transform: three sessions read, write and commit in transactions while members come and go; each record once.
// Where a session ends with an error, as while the broker is away, a new one with the same transactional id goes on.
func transform(s scene) {
	s.transformAll()
}

// transformConsumers: the same in a group of KIP-848.
func transformConsumers(s scene) {
	s.transformAll(kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
}

func (s scene) transformAll(options ...kgo.Opt) {
	const count = 3000
	source, sink := s.topic("source", 6), s.topic("sink", 3)
	client := s.client(kgo.DefaultProduceTopic(source))
	defer client.Close()
	for number := range count {
		client.Produce(s.context, kgo.StringRecord(fmt.Sprint(number)), func(_ *kgo.Record, err error) { must(err) })
	}
	must(client.Flush(s.context))
	fmt.Println("loaded")
	isDone := func() bool {
		committed, err := kadm.NewClient(client).FetchOffsets(s.context, s.name)
		sum := int64(0)
		committed.Each(func(offset kadm.OffsetResponse) { sum += offset.At })
		return err == nil && sum == count
	}
	var aborted atomic.Int64
	var working sync.WaitGroup
	work := func(index, rounds int) {
		defer working.Done()
		for round := 0; rounds == 0 || round < rounds; {
			session := s.session(index, source, sink, options)
			for err := error(nil); err == nil && (rounds == 0 || round < rounds); round++ {
				expect(s.context.Err() == nil, "not done in time")
				var isEmpty, isCommitted bool
				isEmpty, isCommitted, err = s.transformOnce(session, round%5 != 4)
				if !isCommitted {
					aborted.Add(1)
				}
				if isEmpty && isDone() {
					session.Close()
					return
				}
			}
			session.Close()
		}
	}
	// The second and third stop after some rounds: each coming and going is a rebalance under open transactions.
	for index, rounds := range []int{0, 12, 6} {
		working.Add(1)
		go work(index, rounds)
	}
	working.Wait()
	seen := map[string]int{}
	for _, value := range s.read(sink, kgo.ReadCommitted()) {
		seen[value]++
	}
	for value, times := range seen {
		expect(times == 1, "record %s is there %d times", value, times)
	}
	fmt.Printf("%d records, each once; some transactions aborted: %t\n", len(seen), aborted.Load() > 0)
}

func (s scene) session(index int, source, sink string, options []kgo.Opt) *kgo.GroupTransactSession {
	options = append([]kgo.Opt{
		s.seeds(), kgo.TransactionalID(fmt.Sprintf("%s-%d", s.name, index)),
		kgo.ConsumerGroup(s.name), kgo.ConsumeTopics(source), kgo.DefaultProduceTopic(sink),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.RebalanceTimeout(10 * time.Second), kgo.TransactionTimeout(10 * time.Second),
	}, options...)
	session, err := kgo.NewGroupTransactSession(options...)
	must(err)
	return session
}

// transformOnce polls, and writes what it got in one transaction, which it commits or aborts as asked.
func (s scene) transformOnce(session *kgo.GroupTransactSession, commit bool) (isEmpty, isCommitted bool, err error) {
	polling, cancel := context.WithTimeout(s.context, 500*time.Millisecond)
	records := session.PollRecords(polling, 50).Records()
	cancel()
	if err = session.Begin(); err != nil {
		return
	}
	var promise kgo.FirstErrPromise
	for _, record := range records {
		session.Produce(s.context, kgo.StringRecord(string(record.Value)), promise.Promise())
	}
	isCommitted, err = session.End(s.context, kgo.TransactionEndTry(promise.Err() == nil && commit))
	return len(records) == 0, isCommitted, err
}
