package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// job is what a secured client has to do: tests/support/security/secured_jobs.py.
type job struct {
	Scene, Bootstrap, Topic, Name, Value string
	Count                                int
	PatienceMs                           int64 `json:"patience_ms"`
	Security                             struct {
		Protocol, Mechanism, User, Password, Token string
		AuthorityPath                              string `json:"authority_path"`
		IsDelegated                                bool   `json:"is_delegated"`
	}
}

// secured does one job, from standard input, and prints what became of it.
func secured(s scene) {
	var given job
	must(json.NewDecoder(os.Stdin).Decode(&given))
	limited, cancel := context.WithTimeout(s.context, time.Duration(given.PatienceMs)*time.Millisecond)
	defer cancel()
	scenes := map[string]func(context.Context, job) ([]string, error){
		"produce": produceSecured, "transaction": transactSecured, "delegate": delegate,
		"consume": consumeSecured, "consume by KIP-848": consumeSecured,
	}
	values, err := scenes[given.Scene](limited, given)
	var known *kerr.Error
	switch {
	case errors.As(err, &known):
		fmt.Printf("%s: %v\n", known.Message, err)
	case err != nil:
		fmt.Printf("%T: %v\n", err, err)
	default:
		fmt.Println("ok " + strings.Join(values, " "))
	}
}

// client returns one that has connected: what comes later, as Produce, tries again until its context ends.
func (given job) client(limited context.Context, options ...kgo.Opt) (*kgo.Client, error) {
	security := given.Security
	options = append(options, kgo.SeedBrokers(given.Bootstrap), kgo.RequestRetries(3))
	if strings.HasSuffix(security.Protocol, "SSL") {
		authorities := x509.NewCertPool()
		authority, err := os.ReadFile(security.AuthorityPath)
		if err != nil {
			return nil, err
		}
		authorities.AppendCertsFromPEM(authority)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}))
	}
	login := scram.Auth{User: security.User, Pass: security.Password, IsToken: security.IsDelegated}
	switch security.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: security.User, Pass: security.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(login.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: security.Token}.AsMechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return client, client.Ping(limited)
}

func produceSecured(limited context.Context, given job) ([]string, error) {
	client, err := given.client(limited)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return nil, client.ProduceSync(limited, &kgo.Record{Topic: given.Topic, Value: []byte(given.Value)}).FirstErr()
}

func transactSecured(limited context.Context, given job) ([]string, error) {
	client, err := given.client(limited, kgo.TransactionalID(given.Name))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	sent := client.ProduceSync(limited, &kgo.Record{Topic: given.Topic, Value: []byte(given.Value)}).FirstErr()
	if sent != nil {
		return nil, sent
	}
	return nil, client.EndTransaction(limited, kgo.TryCommit)
}

func consumeSecured(limited context.Context, given job) ([]string, error) {
	options := []kgo.Opt{
		kgo.ConsumeTopics(given.Topic), kgo.ConsumerGroup(given.Name), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if strings.HasSuffix(given.Scene, "KIP-848") {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	client, err := given.client(limited, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var values []string
	for len(values) < given.Count {
		fetches := client.PollFetches(limited)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, client.CommitUncommittedOffsets(limited)
}

// delegate makes a token of the user's: its id and its password.
func delegate(limited context.Context, given job) ([]string, error) {
	client, err := given.client(limited)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	token, err := kadm.NewClient(client).CreateDelegationToken(limited, kadm.CreateDelegationToken{MaxLifetime: time.Hour})
	return []string{token.TokenID, base64.StdEncoding.EncodeToString(token.HMAC)}, err
}
