// Package step is what the programs of this folder have in common: what they are told, and how they answer.
package step

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

// Options are described in tests/compat/guest.py.
type Options struct {
	Bootstrap, Topic, Target, Group, Codec, Isolation string
	User, Password, Ca                                string
	Count                                             int
	Timestamp                                         int64
}

// Brokers is the list of addresses.
func (o Options) Brokers() []string { return strings.Split(o.Bootstrap, ",") }

// TLS trusts the authority that was named.
func (o Options) TLS() *tls.Config {
	pem, err := os.ReadFile(o.Ca)
	Must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

// Record is one that is sent or was read.
type Record struct {
	Key     string            `json:"key"`
	Value   *string           `json:"value"`
	Headers map[string]string `json:"headers"`
}

// Records are what `produce` sends; the last is a tombstone.
func Records() []Record {
	var made []Record
	for n := range 100 {
		value := strings.Repeat(fmt.Sprintf("value-%d ", n), 20)
		made = append(made, Record{fmt.Sprintf("key-%d", n), &value, map[string]string{"number": fmt.Sprint(n)}})
	}
	return append(made, Record{"key-0", nil, map[string]string{}})
}

// Text is nil for nil.
func Text(value []byte) *string {
	if value == nil {
		return nil
	}
	text := string(value)
	return &text
}

// Bytes is nil for nil.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Say prints a line.
func Say(name string, value any) { SayAll(map[string]any{name: value}) }

// SayAll prints a line with several things.
func SayAll(line any) {
	text, err := json.Marshal(line)
	Must(err)
	fmt.Println(string(text))
}

// Must ends the program if something went wrong.
func Must(err error) {
	if err != nil {
		log.Panic(err)
	}
}

// UntilInputEnds calls the function once standard input is closed.
func UntilInputEnds(then func()) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		then()
	}()
}

// Run does the step that the command line names.
func Run(steps map[string]func(Options)) {
	var options Options
	Must(json.Unmarshal([]byte(os.Args[2]), &options))
	steps[os.Args[1]](options)
}
