package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin: topics, partitions, configs, records, groups and their offsets, by kadm.
func admin(s scene) {
	client := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	admin := kadm.NewClient(client)
	topic := s.name + "-admin"

	brokers, err := admin.ListBrokers(s.context)
	must(err)
	versions, err := admin.ApiVersions(s.context)
	must(err)
	versions.Each(func(broker kadm.BrokerApiVersions) { must(broker.Err) })
	fmt.Println("brokers:", len(brokers))

	_, err = admin.ValidateCreateTopics(s.context, 2, 1, nil, topic)
	must(err)
	made, err := admin.CreateTopics(s.context, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, topic)
	must(err)
	must(made[topic].Err)
	again, err := admin.CreateTopics(s.context, 2, 1, nil, topic)
	must(err)
	expect(again[topic].Err == kerr.TopicAlreadyExists, "created twice: %v", again[topic].Err)
	wrong, err := admin.CreateTopics(s.context, 1, 1, nil, "not a name")
	must(err)
	expect(wrong["not a name"].Err == kerr.InvalidTopicException, "a bad name: %v", wrong["not a name"].Err)
	grown, err := admin.UpdatePartitions(s.context, 3, topic)
	must(err)
	must(grown[topic].Err)
	listed, err := admin.ListTopics(s.context, topic)
	must(err)
	fmt.Println("partitions:", len(listed[topic].Partitions), "topic id:", listed[topic].ID != kadm.TopicID{})

	_, err = admin.AlterTopicConfigs(s.context, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("65536")},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
		{Op: kadm.DeleteConfig, Name: "retention.ms"},
	}, topic)
	must(err)
	configs, err := admin.DescribeTopicConfigs(s.context, topic)
	must(err)
	for _, config := range configs[0].Configs {
		if config.Key == "max.message.bytes" || config.Key == "cleanup.policy" || config.Key == "retention.ms" {
			fmt.Printf("%s=%s from %s\n", config.Key, config.MaybeValue(), config.Source)
		}
	}
	_, err = admin.AlterTopicConfigs(s.context, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "cleanup.policy", Value: kadm.StringPtr("delete")}}, topic)
	must(err)

	for number := range 10 {
		record := &kgo.Record{Topic: topic, Partition: 0, Value: fmt.Append(nil, number)}
		must(client.ProduceSync(s.context, record).FirstErr())
	}
	cut := kadm.Offsets{}
	cut.AddOffset(topic, 0, 4, -1)
	deleted, err := admin.DeleteRecords(s.context, cut)
	must(err)
	must(deleted.Error())
	starts, err := admin.ListStartOffsets(s.context, topic)
	must(err)
	ends, err := admin.ListEndOffsets(s.context, topic)
	must(err)
	fmt.Println("offsets:", starts[topic][0].Offset, "to", ends[topic][0].Offset)
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(topic, 0, 0)
	forEpoch, err := admin.OffsetForLeaderEpoch(s.context, epochs)
	must(err)
	must(forEpoch[topic][0].Err)

	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 7, -1)
	offsets.AddOffset(topic, 1, 0, -1)
	must(admin.CommitAllOffsets(s.context, s.name, offsets))
	fetched, err := admin.FetchOffsets(s.context, s.name)
	must(err)
	must(fetched.Error())
	lag, err := admin.Lag(s.context, s.name)
	must(err)
	fmt.Println("committed:", fetched[topic][0].At, "lag:", lag[s.name].Lag.Total())
	groups, err := admin.ListGroups(s.context)
	must(err)
	fmt.Println("group:", groups[s.name].State)
	removed, err := admin.DeleteOffsets(s.context, s.name, kadm.TopicsSet{topic: {1: {}}})
	must(err)
	must(removed.Error())
	gone, err := admin.DeleteGroup(s.context, s.name)
	must(err)
	must(gone.Err)

	directories, err := admin.DescribeAllLogDirs(s.context, nil)
	must(err)
	for _, described := range directories {
		must(described.Error())
		partition, isThere := described.LookupPartition(topic, 0)
		fmt.Println("log directory knows its size:", isThere && partition.Size > 0)
	}
	dropped, err := admin.DeleteTopics(s.context, topic)
	must(err)
	must(dropped[topic].Err)
	fresh := s.client() // the first one remembers metadata for a while
	defer fresh.Close()
	left, err := kadm.NewClient(fresh).ListTopics(s.context, topic)
	must(err)
	fmt.Println("after deletion:", left[topic].Err == kerr.UnknownTopicOrPartition)
}

// hanging: a transaction left open is found and described by those who look after the cluster.
func hanging(s scene) {
	topic := s.topic("hanging", 1)
	client := s.client(kgo.TransactionalID(s.name), kgo.DefaultProduceTopic(topic))
	must(client.BeginTransaction())
	must(client.ProduceSync(s.context, kgo.StringRecord("open")).FirstErr())
	plain := s.client()
	defer plain.Close()
	admin := kadm.NewClient(plain)
	listed, err := admin.ListTransactions(s.context, nil, []string{"Ongoing"})
	must(err)
	described, err := admin.DescribeTransactions(s.context, s.name)
	must(err)
	must(described[s.name].Err)
	producers, err := admin.DescribeProducers(s.context, kadm.TopicsSet{topic: {0: {}}})
	must(err)
	fmt.Println("listed:", listed[s.name].State, "described:", described[s.name].State)
	fmt.Println("holds:", described[s.name].Topics[topic] != nil)
	for _, producer := range producers[topic].Partitions[0].ActiveProducers {
		same := producer.ProducerID == listed[s.name].ProducerID
		fmt.Println("producer known:", same, "open since:", producer.CurrentTxnStartOffset)
	}
	must(client.EndTransaction(s.context, kgo.TryAbort))
	client.Close()
	after, err := admin.DescribeTransactions(s.context, s.name)
	must(err)
	states := []string{"CompleteAbort", "PrepareAbort"}
	sort.Strings(states)
	fmt.Println("ended:", strings.Contains(strings.Join(states, " "), after[s.name].State))
}
