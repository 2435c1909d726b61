// The scenes of franz-go against a broker: `interop SCENE BOOTSTRAP NAME` prints one line for each finding, and exits
// with 1 at the first thing that is not as it must be. NAME makes topics, groups and transactional ids unique.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 90 * time.Second

type scene struct {
	context   context.Context
	bootstrap string
	name      string
}

func main() {
	scenes := map[string]func(scene){
		"records":             records,
		"transactions":        transactions,
		"fencing":             fencing,
		"group":               group,
		"consumers":           consumers,
		"resume":              resume,
		"transform":           transform,
		"transform-consumers": transformConsumers,
		"admin":               admin,
		"hanging":             hanging,
		"queue":               queue,
		"secured":             secured,
		"proof":               proof,
	}
	if len(os.Args) < 4 || scenes[os.Args[1]] == nil {
		fail("usage: interop SCENE BOOTSTRAP NAME")
	}
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	scenes[os.Args[1]](scene{limited, os.Args[2], os.Args[3]})
}

func (s scene) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{s.seeds()}, options...)...)
	must(err)
	return client
}

// seeds are all nodes of the bootstrap, which are separated by commas.
func (s scene) seeds() kgo.Opt {
	return kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...)
}

func (s scene) topic(suffix string, partitions int32) string {
	topic := s.name + "-" + suffix
	client := s.client()
	defer client.Close()
	_, err := kadm.NewClient(client).CreateTopic(s.context, partitions, 1, nil, topic)
	must(err)
	return topic
}

// read returns the values of a topic's partitions that the isolation level is given; no transaction may be left open.
func (s scene) read(topic string, isolation kgo.IsolationLevel) []string {
	client := s.client(
		kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(),
	)
	defer client.Close()
	admin := kadm.NewClient(client)
	// A commit is answered before its marker is written, here as in Kafka: read_committed, too, reads up to this end.
	ends, err := admin.ListEndOffsets(s.context, topic)
	must(err)
	must(ends.Error())
	open := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			open[end.Partition] = end.Offset
		}
	})
	var values []string
	for len(open) > 0 {
		fetches := client.PollFetches(s.context)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset+1 >= open[record.Partition] {
				delete(open, record.Partition)
			}
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return values
}

func expect(holds bool, format string, arguments ...any) {
	if !holds {
		fail(format, arguments...)
	}
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	panic("the scene failed")
}
