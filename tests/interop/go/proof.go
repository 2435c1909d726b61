package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	proofWriters    = 2
	proofPartitions = 4
	proofLook       = 100 * time.Millisecond
	// By default a client asks for metadata again after five seconds, however often it is told that its leader moved.
	proofMetadataAge = 250 * time.Millisecond
	// By default the pause doubles up to five seconds: the next take-over comes earlier here.
	proofBackoff = 250 * time.Millisecond
)

// proofPatience are what all of the clients here set.
func proofPatience() []kgo.Opt {
	backoff := func(int) time.Duration { return proofBackoff }
	return []kgo.Opt{kgo.MetadataMinAge(proofMetadataAge), kgo.RetryBackoffFn(backoff)}
}

// prover is a client's program of tests/proofs/postgres; what it prints: lines.py there.
type prover struct {
	scene
	lines       sync.Mutex
	stops, over atomic.Bool
}

// proof writes transactions, copies them and follows them until its standard input asks it to stop.
func proof(s scene) {
	s.context = context.Background()
	p := &prover{scene: s}
	var writers, others sync.WaitGroup
	for number := range proofWriters {
		writers.Go(func() { p.write(number) })
	}
	others.Go(p.copy)
	others.Go(p.follow)
	input := bufio.NewReader(os.Stdin)
	_, _ = input.ReadString('\n')
	p.stops.Store(true)
	writers.Wait()
	p.say("stopped")
	_, _ = io.Copy(io.Discard, input)
	p.over.Store(true)
	others.Wait()
}

func (p *prover) say(words ...any) {
	p.lines.Lock()
	defer p.lines.Unlock()
	fmt.Println(words...)
}

func (p *prover) report(err error) {
	var known *kerr.Error
	if errors.As(err, &known) {
		p.say("error", known.Message)
	} else {
		p.say("error", reflect.TypeOf(err))
	}
}

// producer returns a client that has ended what the one before it left open.
func (p *prover) producer(name string) *kgo.Client {
	for {
		client := p.client(append(
			proofPatience(),
			kgo.TransactionalID(name), kgo.TransactionTimeout(30*time.Second),
			kgo.DefaultProduceTopic(p.name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		)...)
		_, _, err := client.ProducerID(p.context)
		if err == nil {
			return client
		}
		p.report(err)
		client.Close()
	}
}

func (p *prover) write(number int) {
	random := rand.New(rand.NewSource(int64(number)))
	identity := fmt.Sprintf("%s-%d", p.name, number)
	client := p.producer(identity)
	for life, transaction := 1, 1; !p.stops.Load(); transaction++ {
		name, commits, begun := fmt.Sprintf("%d.%d.%d", number, life, transaction), random.Float64() < 0.85, time.Now()
		outcome := "aborted"
		if commits {
			outcome = "committed"
		}
		if err := p.transact(client, name, commits); err != nil {
			p.report(err)
			client.Close()
			client = p.producer(identity)
			if !p.isThere(name) {
				outcome = "aborted"
			}
			life, transaction = life+1, 0
		}
		p.say("end", name, outcome, time.Since(begun).Milliseconds())
		time.Sleep(time.Duration(random.Intn(20)) * time.Millisecond)
	}
	client.Close()
}

func (p *prover) transact(client *kgo.Client, name string, commits bool) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	records := make([]*kgo.Record, proofPartitions)
	for partition := range records {
		records[partition] = &kgo.Record{Partition: int32(partition), Value: []byte(name)}
	}
	if err := client.ProduceSync(p.context, records...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(p.context, kgo.TransactionEndTry(commits))
}

// isThere returns whether a transaction that has ended was committed.
func (p *prover) isThere(name string) bool {
	places := map[string]map[int32]kgo.Offset{p.name: {0: kgo.NewOffset().AtStart()}}
	client := p.client(append(
		proofPatience(),
		kgo.ConsumePartitions(places), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(proofLook),
	)...)
	defer client.Close()
	admin, end := kadm.NewClient(client), int64(-1)
	for end < 0 {
		ends, err := admin.ListEndOffsets(p.context, p.name)
		if err != nil {
			p.report(err)
		} else if found, ok := ends.Lookup(p.name, 0); ok && found.Err == nil {
			end = found.Offset
		}
	}
	isThere := false
	for next := int64(0); next < end; {
		client.PollFetches(p.context).EachRecord(func(record *kgo.Record) {
			isThere = isThere || string(record.Value) == name
			next = record.Offset + 1
		})
	}
	return isThere
}

// copy reads, and writes with the group's offsets; after an error a new session resumes where the group has committed.
func (p *prover) copy() {
	for !p.over.Load() {
		session, err := kgo.NewGroupTransactSession(append(
			proofPatience(),
			p.seeds(), kgo.TransactionalID(p.name+"-copier"),
			kgo.TransactionTimeout(30*time.Second), kgo.ConsumerGroup(p.name), kgo.ConsumeTopics(p.name),
			kgo.SessionTimeout(10*time.Second),
			kgo.DefaultProduceTopic(p.name+"-copies"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(proofLook),
		)...)
		must(err)
		_, _, err = session.Client().ProducerID(p.context) // else the session waits for what the last one left open
		for err == nil && !p.over.Load() {
			err = p.copySome(session)
		}
		if err != nil {
			p.report(err)
		}
		session.Close()
	}
}

func (p *prover) copySome(session *kgo.GroupTransactSession) error {
	polling, cancel := context.WithTimeout(p.context, proofLook)
	records := session.PollRecords(polling, 100).Records()
	cancel()
	if len(records) == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	var promise kgo.FirstErrPromise
	for _, record := range records {
		value := fmt.Appendf(nil, "%s %d", record.Value, record.Partition)
		session.Produce(p.context, &kgo.Record{Partition: record.Partition, Value: value}, promise.Promise())
	}
	err := promise.Err()
	_, ended := session.End(p.context, kgo.TransactionEndTry(err == nil))
	if err != nil {
		p.report(err)
	}
	return ended
}

func (p *prover) follow() {
	places := map[int32]kgo.Offset{}
	for partition := range int32(proofPartitions) {
		places[partition] = kgo.NewOffset().At(0)
	}
	client := p.client(append(
		proofPatience(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.name: places}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(proofLook),
	)...)
	defer client.Close()
	for !p.over.Load() {
		polling, cancel := context.WithTimeout(p.context, proofLook)
		fetches := client.PollFetches(polling)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				p.report(err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			p.say("read", record.Partition, record.Offset, string(record.Value))
		})
	}
}
