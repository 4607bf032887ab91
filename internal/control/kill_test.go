package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/journal"
	"github.com/ondol-app/ondol/internal/sqlite"
)

// killed makes the test binary the app that is killed: "FOLDER SEED", and
// " last" for the one that may finish.
const killed = "ONDOL_TEST_KILLED_APP"

func TestMain(m *testing.M) {
	if how := os.Getenv(killed); how != "" {
		if err := serveAndProduce(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	killReaders = 200
	killClients = 2 // of the readers, how many use the client
	killEvents  = 100_000
	killTimes   = 5

	kindDone event.Kind = "test.done" // the last event of all
)

// serveAndProduce is the app as far as events go: the index with its journal,
// the recorder, the control API. Three producers, one for each way into the
// journal, go on until there are enough events; the last app then says so.
func serveAndProduce(how string) error {
	dir, rest, _ := strings.Cut(how, " ")
	seedText, last, _ := strings.Cut(rest, " ")
	seed, err := strconv.ParseUint(seedText, 10, 64)
	if err != nil {
		return err
	}
	db, err := sqlite.OpenConfig(context.Background(), sqlite.Config{Path: filepath.Join(dir, "index.db"), Events: 2 * killEvents})
	if err != nil {
		return err
	}
	logger := slog.New(slog.DiscardHandler)
	recorder := journal.NewRecorder(db, logger)
	p := newParts()
	server, err := control.New(control.Config{
		Version: "1", Socket: filepath.Join(dir, "control.sock"), Endpoint: func() string { return "" },
		Engine: p, Gate: p, Validity: func() control.Validity { return control.Validity{} }, Indexer: p, Index: db, Journal: db, Recent: p, Trust: p,
		Search: p, Models: p, Settings: fakeSettings{p}, Logger: logger,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(context.Background())
	group.Go(func() error { return recorder.Run(ctx) })
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error {
		err := produce(ctx, db, recorder, rand.New(rand.NewPCG(seed, 1)))
		if err == nil && last != "" {
			recorder.Notify(event.New(kindDone)) // behind all that the recorder still holds
		}
		return err
	})
	return group.Wait()
}

func produce(ctx context.Context, db *sqlite.DB, recorder *journal.Recorder, r *rand.Rand) error {
	for i := 0; ; i++ {
		kept, err := db.EventSpan(ctx)
		if err != nil {
			return err
		}
		if kept.Newest >= killEvents {
			return nil
		}
		var batch []event.Event
		for range 1 + r.IntN(200) {
			batch = append(batch, event.New(kindTest, "n", strconv.Itoa(i), "path", "/docs/예산안 "+strconv.Itoa(r.IntN(1000))+".md"))
		}
		switch r.IntN(3) {
		case 0:
			for _, e := range batch {
				recorder.Notify(e)
			}
		case 1:
			if err := db.Record(ctx, batch...); err != nil {
				return err
			}
		default:
			f, err := db.AddFolder(ctx, fmt.Sprintf("/docs/%d/%d", os.Getpid(), i))
			if err != nil {
				return err
			}
			if err := db.RemoveFolder(ctx, f.ID); err != nil {
				return err
			}
		}
	}
}

// chain is what a reader has read so far: the bytes of the messages, as one
// figure, and how many they were.
type chain struct {
	hash  maphash.Hash
	count uint64 // of messages
	last  uint64 // number of the last one
	done  bool   // it was the last of all
}

func newChain(seed maphash.Seed) *chain {
	c := &chain{}
	c.hash.SetSeed(seed)
	return c
}

// add takes whole messages.
func (c *chain) add(messages []byte) error {
	c.hash.Write(messages)
	events := bytes.Count(messages, []byte("\nevent: event\n"))
	if all := bytes.Count(messages, []byte("\n\n")); all != events {
		return fmt.Errorf("of %d messages after event %d only %d are events: %.200q", all, c.last, events, messages)
	}
	at := messages[max(bytes.LastIndex(messages[:len(messages)-2], []byte("\n\n")), 0):]
	_, id, _ := bytes.Cut(at, []byte("id: "))
	id, _, _ = bytes.Cut(id, []byte("\n"))
	last, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return fmt.Errorf("read %.200q: %w", at, err)
	}
	c.count, c.last = c.count+uint64(events), last
	c.done = bytes.Contains(at, []byte(`"kind":"`+kindDone+`"`))
	if c.count != c.last {
		return fmt.Errorf("event %d is the %d. that was read", c.last, c.count)
	}
	return nil
}

// addEvent takes a decoded event.
func (c *chain) addEvent(e event.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return c.add(fmt.Appendf(nil, "id: %d\nevent: event\ndata: %s\n\n", e.Seq, data))
}

// killTest is the test's side.
type killTest struct {
	socket   string
	seed     uint64
	hash     maphash.Seed
	foremost atomic.Uint64 // number that the foremost reader has come to
}

func (k *killTest) reached(seq uint64) {
	for {
		now := k.foremost.Load()
		if seq <= now || k.foremost.CompareAndSwap(now, seq) {
			return
		}
	}
}

// errLeave is a reader's own wish to go away for a while.
var errLeave = errors.New("leave")

// read is one reader with its moods: it connects, reads some, perhaps pauses,
// perhaps leaves, and comes back.
func (k *killTest) read(ctx context.Context, number int) (*chain, error) {
	r := rand.New(rand.NewPCG(k.seed, uint64(number)+100))
	c := newChain(k.hash)
	for !c.done {
		leave := c.last + 1 + r.Uint64N(20_000)
		rest := c.last + r.Uint64N(10_000)
		mood := func() error {
			k.reached(c.last)
			if c.last >= leave || c.done {
				return errLeave
			}
			if c.last >= rest {
				rest += r.Uint64N(10_000)
				time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond) // a slow reader
			}
			return nil
		}
		var err error
		if number < killClients {
			err = k.connectClient(ctx, c, mood)
		} else {
			err = k.connect(c, mood)
		}
		if err != nil {
			return c, err
		}
		if ctx.Err() != nil {
			return c, fmt.Errorf("out of time at event %d", c.last)
		}
		time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
	}
	return c, nil
}

// connectClient reads through the client, which finds the app again by itself
// once it had it. The first connection of a call may meet an app that is dying.
func (k *killTest) connectClient(ctx context.Context, c *chain, mood func() error) (wrong error) {
	client := control.NewClient(k.socket)
	defer client.Close()
	last := c.last
	_ = client.Events(ctx, control.EventsQuery{Since: &last}, func(m control.Message) error {
		if m.Event == nil {
			wrong = fmt.Errorf("%s after event %d", m.Name, c.last)
			return wrong
		}
		if wrong = c.addEvent(*m.Event); wrong != nil {
			return wrong
		}
		return mood()
	})
	return wrong
}

// connect reads by hand, which is fast enough for many. A connection that
// breaks is no error.
func (k *killTest) connect(c *chain, mood func() error) error {
	conn, err := net.Dial("unix", k.socket)
	if err != nil {
		return nil // the app is being started
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	// HTTP/1.0, so that the stream is the body as it is.
	if _, err := fmt.Fprintf(conn, "GET /ondol/v1/events HTTP/1.0\r\nHost: localhost\r\nLast-Event-ID: %d\r\n\r\n", c.last); err != nil {
		return nil
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	for line := ""; line != "\n"; { // to the end of the message before the first event
		if line, err = in.ReadString('\n'); err != nil {
			return nil
		}
	}
	block, filled := make([]byte, 64<<10), 0
	for {
		n, err := in.Read(block[filled:])
		filled += n
		filled = len(withoutBeats(block[:filled]))
		// A connection that breaks inside of a message has not brought it.
		if whole := bytes.LastIndex(block[:filled], []byte("\n\n")) + 1; whole > 0 {
			whole++
			if err := c.add(block[:whole]); err != nil {
				return err
			}
			filled = copy(block, block[whole:filled])
		}
		if err != nil || mood() != nil {
			return nil
		}
	}
}

// withoutBeats removes what only says that the stream lives.
func withoutBeats(block []byte) []byte {
	beat := []byte(": alive\n\n")
	for bytes.HasPrefix(block, beat) {
		block = block[:copy(block, block[len(beat):])]
	}
	for {
		i := bytes.Index(block, []byte("\n\n: alive\n\n"))
		if i < 0 {
			return block
		}
		block = block[:i+2+copy(block[i+2:], block[i+2+len(beat):])]
	}
}

// run starts the app and kills it when the foremost reader has come to a
// number; 0 lets it finish.
func (k *killTest) run(t *testing.T, dir string, round int, until uint64) {
	t.Helper()
	how := fmt.Sprintf("%s=%s %d", killed, dir, k.seed+uint64(round))
	if until == 0 {
		how += " last"
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), how, "GORACE=atexit_sleep_ms=0"), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if until == 0 {
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return
	}
	for k.foremost.Load() < until && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the app was not killed: %v", err)
	}
}

// Many readers that come and go while the app is killed and started again all
// end with the same list, and it is the journal.
func TestEveryReaderEndsWithTheJournal(t *testing.T) {
	dir := shortDir(t)
	k := &killTest{socket: filepath.Join(dir, "control.sock"), seed: rand.Uint64(), hash: maphash.MakeSeed()}
	t.Logf("seed %d", k.seed)
	r := rand.New(rand.NewPCG(k.seed, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // counts only when something is broken
	defer cancel()
	chains := make([]*chain, killReaders)
	var wait sync.WaitGroup
	for i := range killReaders {
		wait.Go(func() {
			var err error
			if chains[i], err = k.read(ctx, i); err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	for round := range killTimes {
		part := uint64(killEvents / (killTimes + 1))
		k.run(t, dir, round, part*uint64(round+1)+r.Uint64N(part/2))
	}
	k.run(t, dir, killTimes, 0)
	wait.Wait()

	want := newChain(k.hash)
	db := openJournal(t, filepath.Join(dir, "index.db"), 2*killEvents)
	for {
		events, _, err := db.Events(t.Context(), want.last, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if err := want.addEvent(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want.count <= killEvents || !want.done {
		t.Errorf("the journal has %d events, want more than %d and the last one", want.count, killEvents)
	}
	for i, c := range chains {
		if c.count != want.count || c.hash.Sum64() != want.hash.Sum64() {
			t.Errorf("reader %d ended with %d events (%x), the journal has %d (%x)", i, c.count, c.hash.Sum64(), want.count, want.hash.Sum64())
		}
	}
}
