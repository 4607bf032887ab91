package fakellama

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Main plays the program and does not return, if this process was started by
// an installed script; otherwise it returns at once.
func Main() {
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	if err := serve(dir, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func readFaults(dir string) Faults {
	var faults Faults
	raw, err := os.ReadFile(filepath.Join(dir, "faults.json"))
	if err == nil {
		err = json.Unmarshal(raw, &faults)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake llama-server:", err)
		syscall.Exit(2)
	}
	return faults
}

func argument(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// last is the value of a flag that may be repeated; the last one wins.
func last(args []string, name string) (value string) {
	for i := 0; i+1 < len(args); i++ {
		if args[i] == name {
			value = args[i+1]
		}
	}
	return value
}

func serve(dir string, args []string) error {
	faults := readFaults(dir)
	switch {
	case slices.Contains(args, "--version"):
		fmt.Fprintln(os.Stderr, "version: 0.0.0 (build 1, commit fake)")
		return nil
	case slices.Contains(args, "--help"):
		fmt.Println("--embedding, --embeddings\n--api-key-file FNAME\n-a,    --alias STRING\n--ui,  --webui, --no-ui, --no-webui\n--offline")
		return nil
	case faults.RefuseFlag != "" && slices.Contains(args, faults.RefuseFlag):
		return fmt.Errorf("error: invalid argument: %s", faults.RefuseFlag)
	}
	starts, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	before, err := starts.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintln(starts, os.Getpid())
	if faults.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintln(os.Stderr, "0.00.000.001 I srv  llama_server: initializing ...")
	if faults.ExitAtLoad {
		return fmt.Errorf("0.00.000.002 E srv    load_model: failed to load model, 'fake'")
	}
	if faults.NoListen {
		time.Sleep(time.Hour)
	}
	key, err := os.ReadFile(argument(args, "--api-key-file"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", argument(args, "--host"))
	if err != nil {
		return fmt.Errorf("0.00.000.003 E srv         start: couldn't bind HTTP server socket: %w", err)
	}
	s := &server{again: before.Size() > 0, running: map[*visit]bool{}, dir: dir, args: args, key: strings.TrimSpace(string(key)), ready: time.Now().Add(time.Duration(faults.LoadMS) * time.Millisecond)}
	return http.Serve(listener, s.routes())
}

type server struct {
	dir   string
	key   string
	args  []string
	ready time.Time
	again bool // it is not the first start

	mu      sync.Mutex
	spoilt  bool            // guarded by mu
	running map[*visit]bool // guarded by mu
}

// visit is one embedding under way.
type visit struct{ met bool } // guarded by server.mu; another one ran at the same time

func (s *server) enter() *visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &visit{met: len(s.running) > 0}
	for other := range s.running {
		other.met = true
	}
	s.running[v] = true
	return v
}

// leave says what is wrong with the vectors.
func (s *server) leave(v *visit, faults Faults, inputs []string) Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, v)
	s.spoilt = s.spoilt || has(inputs, faults.StickyOn) || v.met && faults.Overlap && faults.Sticks
	if s.spoilt || v.met && faults.Overlap {
		return Null
	}
	return faults.Vectors
}

func has(inputs []string, text string) bool {
	return text != "" && slices.ContainsFunc(inputs, func(s string) bool { return strings.Contains(s, text) })
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /props", s.guarded(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"default_generation_settings":{"n_ctx":1024},"total_slots":4,"model_path":"fake-model.gguf","build_info":"b1-fake"}`)
	}))
	mux.HandleFunc("POST /tokenize", s.guarded(s.tokenize))
	mux.HandleFunc("POST /v1/embeddings", s.guarded(s.embed))
	return mux
}

func fail(w http.ResponseWriter, code int, kind, message string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"type":%q}}`, code, message, kind)
}

func (s *server) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+s.key {
			fail(w, 401, "authentication_error", "Invalid API Key")
			return
		}
		next(w, r)
	}
}

func (s *server) health(w http.ResponseWriter, r *http.Request) {
	faults := readFaults(s.dir)
	switch {
	case faults.HangHealth:
		<-r.Context().Done()
	case faults.SickHealth:
		fail(w, 500, "server_error", "sick")
	case time.Now().Before(s.ready):
		fail(w, 503, "unavailable_error", "Loading model")
	default:
		fmt.Fprint(w, `{"status":"ok"}`)
	}
}

func (s *server) tokenize(w http.ResponseWriter, r *http.Request) {
	var request struct{ Content string }
	if json.NewDecoder(r.Body).Decode(&request) != nil {
		fail(w, 400, "invalid_request_error", "no JSON")
		return
	}
	tokens := []int{}
	for _, b := range []byte(request.Content) {
		tokens = append(tokens, int(b))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"tokens": append(tokens, 256)}) // a client that is gone
}

func (s *server) embed(w http.ResponseWriter, r *http.Request) {
	var request struct{ Input []string }
	if json.NewDecoder(r.Body).Decode(&request) != nil {
		fail(w, 400, "invalid_request_error", "no JSON")
		return
	}
	faults := readFaults(s.dir)
	if name, value, _ := strings.Cut(faults.With, " "); name != "" && last(s.args, name) != value {
		faults = Faults{}
	}
	if faults.FirstLife && s.again {
		faults.StickyOn, faults.HangOn, faults.CrashOn, faults.AlarmOn = "", "", "", ""
	}
	for i := range faults.Noise {
		fmt.Fprintf(os.Stderr, "0.00.000.004 I slot %d: %s\n", i, strings.Repeat("noise ", 20))
	}
	if faults.Crash || has(request.Input, faults.CrashOn) {
		syscall.Exit(3)
	}
	visit := s.enter()
	defer func() { s.leave(visit, faults, nil) }()
	if has(request.Input, faults.AlarmOn) {
		fmt.Fprintln(os.Stderr, Alarm)
		<-r.Context().Done()
		return
	}
	if has(request.Input, faults.HangOn) {
		<-r.Context().Done()
		return
	}
	if has(request.Input, faults.BusyOn) {
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		}
	}
	select {
	case <-time.After(time.Duration(faults.DelayMS) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	type item struct {
		Index     int `json:"index"`
		Embedding any `json:"embedding"`
	}
	mode := s.leave(visit, faults, request.Input)
	var data []item
	for i, text := range request.Input {
		data = append(data, item{i, embedding(mode, faults.Drift, i, text)})
	}
	switch faults.Vectors {
	case Error:
		fail(w, 500, "server_error", "fault")
		return
	case Hang:
		<-r.Context().Done()
		return
	case Count:
		data = data[:len(data)-1]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that is gone
		"object": "list", "model": "fake-model.gguf", "data": data, "usage": map[string]int{"prompt_tokens": len(request.Input), "total_tokens": len(request.Input)},
	})
}

// embedding is a unit vector that depends on the text alone, or what mode makes of it.
func embedding(mode Mode, drift float64, i int, text string) any {
	v := make([]float32, Dim)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // a hash takes everything
	seed, norm := hash.Sum64(), 0.0
	for j := range v {
		seed = seed*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
		v[j] = float32(seed>>40)/float32(1<<24) - 0.5
		norm += float64(v[j]) * float64(v[j])
	}
	if mode == Short {
		norm -= float64(v[Dim-1]) * float64(v[Dim-1])
		v = v[:Dim-1]
	}
	for j := range v {
		v[j] /= float32(math.Sqrt(norm))
	}
	if drift != 0 {
		sine := float32(math.Sqrt(1 - drift*drift))
		for j := 0; j < Dim; j += 2 { // by the same angle in each of four planes
			a, b := v[j], v[j+1]
			v[j], v[j+1] = float32(drift)*a-sine*b, sine*a+float32(drift)*b
		}
	}
	switch mode {
	case Null:
		return make([]*float32, Dim)
	case NaN:
		v[0] = float32(math.NaN())
	case Zero:
		clear(v)
	case Dimension:
		if i > 0 {
			v = v[1:]
		}
	}
	var raw bytes.Buffer
	_ = binary.Write(&raw, binary.LittleEndian, v) // a buffer takes everything
	return base64.StdEncoding.EncodeToString(raw.Bytes())
}

// header is a GGUF file of version 3 without tensors: architecture "fake",
// 8 dimensions, last-token pooling, context 2048: a passage by the settings'
// defaults fits.
func header() []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a buffer takes everything
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(uint32(3))
	put(uint64(0))
	put(uint64(4))
	text("general.architecture")
	put(uint32(8)) // string
	text("fake")
	for _, kv := range []struct {
		key   string
		value uint32
	}{{"fake.embedding_length", Dim}, {"fake.pooling_type", 3}, {"fake.context_length", 2048}} {
		text(kv.key)
		put(uint32(4)) // uint32
		put(kv.value)
	}
	return b.Bytes()
}
