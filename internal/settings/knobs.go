package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Knob is one setting.
type Knob struct {
	Key     string // dotted, as in the file
	Default any    // string, int, bool, time.Duration or []string; its type is the knob's
	Unit    string // of a number, as in "tokens"; empty where there is none
	Min     int    // smallest int, or seconds of a duration
	Max     int    // largest
	Meaning string // one line of English for the file; the command line has its own words
	Applies Applies
	Env     string // environment variable above the file; may be empty
	Flag    string // command line flag above both, without dashes; may be empty

	field func(*Settings) any // pointer to the field, of Default's type
}

// Applies says when a changed value counts.
type Applies string

// The moments.
const (
	AppliesStart Applies = "start" // when the app is started again
	AppliesNow   Applies = "now"   // at once
)

// String returns the moment as it stands in JSON.
func (a Applies) String() string { return string(a) }

// Type is what a knob's value is.
type Type string

// The types.
const (
	TypeText   Type = "text"
	TypeNumber Type = "number"
	TypeYesNo  Type = "yes_no"
	TypeTime   Type = "time"
	TypeList   Type = "list"
)

// String returns the type as it stands in JSON.
func (t Type) String() string { return string(t) }

// Type is that of the default.
func (k Knob) Type() Type {
	switch k.Default.(type) {
	case int:
		return TypeNumber
	case bool:
		return TypeYesNo
	case time.Duration:
		return TypeTime
	case []string:
		return TypeList
	}
	return TypeText
}

// knobs is the one table. The order is the order shown.
var knobs = whenApplied(append([]Knob{
	{Key: "listen", Default: "127.0.0.1:7434", Meaning: "address of the endpoint for editors and agents; a loopback address",
		Env: "ONDOL_LISTEN", Flag: "listen", field: func(s *Settings) any { return &s.Listen }},
	{Key: "allowed_origins", Default: []string{}, Meaning: "web origins that may call the endpoint, such as app://obsidian.md",
		field: func(s *Settings) any { return &s.AllowedOrigins }},
	{Key: "aliases", Default: []string{}, Meaning: "further model names that clients may ask for, such as text-embedding-3-small",
		field: func(s *Settings) any { return &s.Aliases }},
	{Key: "require_key", Default: false, Meaning: "serve only clients that show the key in the token file; else any program on this machine",
		field: func(s *Settings) any { return &s.RequireKey }},
	{Key: "decode_token_ids", Default: "", Meaning: "vocabulary (cl100k_base) in which token ids are read from clients that show the key in the token file; empty refuses them",
		field: func(s *Settings) any { return &s.DecodeTokenIDs }},
	{Key: "log", Default: "info", Meaning: "least level that is logged: debug, info, warn, error",
		Env: "ONDOL_LOG", Flag: "log", field: func(s *Settings) any { return &s.Log }},

	{Key: "engine.server", Default: "", Meaning: "path of llama-server; empty means it is looked for",
		Env: "ONDOL_LLAMA_SERVER", Flag: "llama-server", field: func(s *Settings) any { return &s.Engine.Server }},
	{Key: "engine.model", Default: "", Meaning: "path of the model (GGUF); empty means it is looked for",
		Env: "ONDOL_MODEL", Flag: "model", field: func(s *Settings) any { return &s.Engine.Model }},
	{Key: "engine.profile", Default: "", Meaning: "set of engine flags: reference, standard, small, starter; empty means chosen from the model",
		Env: "ONDOL_PROFILE", Flag: "profile", field: func(s *Settings) any { return &s.Engine.Profile }},
	{Key: "engine.flags", Default: []string{}, Meaning: "flags of llama-server added after the profile's, so that they win",
		field: func(s *Settings) any { return &s.Engine.Flags }},
	{Key: "engine.candidate_slower_limit", Default: 110, Unit: "percent", Min: 50, Max: 1000, Meaning: "longest median time of a candidate that passes its trial, against that of the engine in service",
		field: func(s *Settings) any { return &s.Engine.CandidateSlower }},
	{Key: "engine.probation", Default: 30 * time.Second, Min: 1, Max: 3600, Meaning: "time after a promotion in which an engine that breaks gives way to the earlier one, which is kept warm",
		field: func(s *Settings) any { return &s.Engine.Probation }},
	{Key: "engine.longest_input", Default: 0, Unit: "tokens", Min: 0, Max: 1 << 20, Meaning: "longest input that is accepted; 0 means as long as the engine takes",
		field: func(s *Settings) any { return &s.Engine.LongestInput }},
	{Key: "engine.memory_check", Default: true, Meaning: "refuse to start an engine that needs more memory than the machine has; false tries, and the system may swap or end programs",
		field: func(s *Settings) any { return &s.Engine.MemoryCheck }},
	{Key: "engine.check_every", Default: 1000, Unit: "vectors", Min: 10, Max: 1000000, Meaning: "after so many vectors a few fixed texts are embedded to see whether the engine is still right",
		field: func(s *Settings) any { return &s.Engine.CheckEvery }},
	{Key: "engine.silence", Default: 2 * time.Minute, Min: 1, Max: 3600, Meaning: "longest time an engine that has requests may give no sign of work (no answer, no line in its log, no processor time) before it is replaced",
		field: func(s *Settings) any { return &s.Engine.Silence }},
	{Key: "engine.unload_on_battery", Default: 15 * time.Minute, Min: 0, Max: 7 * 86400, Meaning: "on battery, time without a request after which the engine is unloaded until the next one; 0s keeps it",
		field: func(s *Settings) any { return &s.Engine.UnloadOnBattery }},
	{Key: "engine.unload_on_power", Default: time.Duration(0), Min: 0, Max: 7 * 86400, Meaning: "the same when plugged in; 0s keeps the engine",
		field: func(s *Settings) any { return &s.Engine.UnloadOnPower }},

	{Key: "admission.executing", Default: 2, Unit: "requests", Min: 1, Max: 64, Meaning: "requests the engine works on at once; at most its slots",
		field: func(s *Settings) any { return &s.Admission.Executing }},
	{Key: "admission.waiting", Default: 64, Unit: "requests", Min: 0, Max: 10000, Meaning: "requests that may wait; one more is refused at once",
		field: func(s *Settings) any { return &s.Admission.Waiting }},
	{Key: "admission.wait", Default: 120 * time.Second, Min: 1, Max: 3600, Meaning: "longest time a request waits before it is refused",
		field: func(s *Settings) any { return &s.Admission.Wait }},
	{Key: "admission.background", Default: 1, Unit: "requests", Min: 0, Max: 63, Meaning: "of those executing, how many indexing may hold; fewer than executing, 0 pauses indexing",
		field: func(s *Settings) any { return &s.Admission.Background }},
	{Key: "admission.total", Default: 300 * time.Second, Min: 1, Max: 3600, Meaning: "longest exchange with the engine, from the moment a request may execute",
		field: func(s *Settings) any { return &s.Admission.Total }},

	{Key: "index.chunk_min", Default: 400, Unit: "tokens", Min: 16, Max: 8192, Meaning: "a passage is filled up to at least this size",
		field: func(s *Settings) any { return &s.Index.ChunkMin }},
	{Key: "index.chunk_max", Default: 600, Unit: "tokens", Min: 16, Max: 8192, Meaning: "a passage is never longer than this",
		field: func(s *Settings) any { return &s.Index.ChunkMax }},
	{Key: "index.max_file", Default: 20, Unit: "MiB", Min: 1, Max: 1024, Meaning: "larger files are skipped",
		field: func(s *Settings) any { return &s.Index.MaxFile }},
	{Key: "index.readers", Default: 0, Unit: "files", Min: 0, Max: 64, Meaning: "files read at once; at most the processor's cores; 0 means as many as those, up to 4",
		field: func(s *Settings) any { return &s.Index.Readers }},
	{Key: "index.reconcile", Default: 10 * time.Minute, Min: 10, Max: 86400, Meaning: "time between full scans, which repair what a watcher missed",
		field: func(s *Settings) any { return &s.Index.Reconcile }},
	{Key: "index.keep_generations", Default: 7 * 24 * time.Hour, Min: 3600, Max: 90 * 86400, Meaning: "how long vectors are kept after another engine took over, for an instant way back",
		field: func(s *Settings) any { return &s.Index.KeepGenerations }},

	{Key: "cache.memory", Default: 64, Unit: "MiB", Min: 1, Max: 65536, Meaning: "memory for vectors of texts that clients asked for",
		field: func(s *Settings) any { return &s.Cache.Memory }},
	{Key: "cache.disk", Default: 512, Unit: "MiB", Min: 0, Max: 1 << 20, Meaning: "the same on disk, in the cache folder; 0 means memory only",
		field: func(s *Settings) any { return &s.Cache.Disk }},

	{Key: "journal.events", Default: 100_000, Unit: "events", Min: 1000, Max: 10_000_000, Meaning: "events kept for readers that come back, newest first",
		field: func(s *Settings) any { return &s.Journal.Events }},
	{Key: "journal.age", Default: 30 * 24 * time.Hour, Min: 3600, Max: 366 * 86400, Meaning: "how long an event is kept",
		field: func(s *Settings) any { return &s.Journal.Age }},
}, slices.Concat(yieldKnobs(), modelKnobs(), roleKnobs())...))

// live are the settings that are taken over while the app runs; all others
// count from its next start.
var live = []string{
	"log", "allowed_origins", "aliases", "engine.unload_on_battery", "engine.unload_on_power", "admission.executing", "admission.waiting", "admission.wait", "admission.background",
	"yield.gpu", "yield.gpu_resume", "yield.after", "yield.resume_after", "yield.battery", "yield.low_power",
	"roles.rerank.executing", "roles.rerank.waiting", "roles.rerank.wait", "roles.chat.executing", "roles.chat.waiting", "roles.chat.wait",
}

func whenApplied(list []Knob) []Knob {
	for i := range list {
		list[i].Applies = AppliesStart
		if slices.Contains(live, list[i].Key) {
			list[i].Applies = AppliesNow
		}
	}
	return list
}

// Knobs is the table of all settings; the caller may keep it.
func Knobs() []Knob { return append([]Knob(nil), knobs...) }

// Find is the knob named key.
func Find(key string) (Knob, bool) {
	for _, k := range knobs {
		if k.Key == key {
			return k, true
		}
	}
	return Knob{}, false
}

// set puts a value of the file, of parse, or the default into its field. The
// error completes "KEY = VALUE: …".
func (k Knob) set(s *Settings, value any) error {
	switch field := k.field(s).(type) {
	case *string:
		text, ok := value.(string)
		if !ok {
			return needs("text", "a text in quotes is needed")
		}
		*field = text
	case *bool:
		yes, ok := value.(bool)
		if !ok {
			return needs("yes_no", "true or false is needed")
		}
		*field = yes
	case *[]string:
		list, err := texts(value)
		if err != nil {
			return err
		}
		*field = list
	case *int:
		number, ok := whole(value)
		if !ok || number < int64(k.Min) || number > int64(k.Max) {
			return needs("whole_number", fmt.Sprintf("a whole number from %d to %d (%s) is needed", k.Min, k.Max, k.Unit),
				"min", strconv.Itoa(k.Min), "max", strconv.Itoa(k.Max), "unit", k.Unit)
		}
		*field = int(number)
	case *time.Duration:
		d, ok := value.(time.Duration)
		if text, isText := value.(string); isText {
			var err error
			d, err = time.ParseDuration(text)
			ok = err == nil
		}
		low, high := time.Duration(k.Min)*time.Second, time.Duration(k.Max)*time.Second
		if !ok || d < low || d > high {
			return needs("time", fmt.Sprintf("a time from %s to %s is needed, such as \"90s\" or \"10m\"", short(low), short(high)),
				"min", short(low), "max", short(high))
		}
		*field = d
	}
	return nil
}

func whole(value any) (int64, bool) {
	switch n := value.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, n >= math.MinInt32 && n <= math.MaxInt32
	}
	return 0, false
}

func texts(value any) ([]string, error) {
	switch list := value.(type) {
	case []string:
		return append([]string{}, list...), nil
	case []any:
		out := make([]string, len(list))
		for i, item := range list {
			text, ok := item.(string)
			if !ok {
				return nil, needs("texts", "a list of texts is needed, such as [\"one\", \"two\"]")
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, needs("texts", "a list of texts is needed, such as [\"one\", \"two\"]")
}

// parse reads a value as it is written in the environment or on the command
// line: without quotes; a list is split at commas where its items are origins
// and at blanks where they are flags. A list whose items hold either is written
// as one of JSON: ["-ts", "3,1"].
func (k Knob) parse(text string) (any, error) {
	switch k.Default.(type) {
	case int:
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return text, nil // set says what is needed
		}
		return n, nil
	case bool:
		yes, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return text, nil // set says what is needed
		}
		return yes, nil
	case []string:
		if list := []string(nil); strings.HasPrefix(strings.TrimSpace(text), "[") && json.Unmarshal([]byte(text), &list) == nil {
			return list, nil
		}
		return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }), nil
	}
	return text, nil
}

// value is the value as set takes it.
func (k Knob) value(s *Settings) any {
	switch field := k.field(s).(type) {
	case *string:
		return *field
	case *int:
		return *field
	case *bool:
		return *field
	case *[]string:
		return *field
	case *time.Duration:
		return *field
	}
	return nil
}

// text is the value in the form parse reads.
func (k Knob) text(s *Settings) string {
	switch field := k.field(s).(type) {
	case *string:
		return *field
	case *int:
		return strconv.Itoa(*field)
	case *bool:
		return strconv.FormatBool(*field)
	case *[]string:
		return listText(*field)
	case *time.Duration:
		return short(*field)
	}
	return ""
}

// listText is a list in the form parse reads: its items between blanks, or as
// one of JSON where an item would not survive that.
func listText(list []string) string {
	for i, item := range list {
		if item == "" || strings.ContainsAny(item, " ,") || (i == 0 && strings.HasPrefix(item, "[")) {
			text, _ := json.Marshal(list) // strings have no error
			return string(text)
		}
	}
	return strings.Join(list, " ")
}

// DefaultText is the default in the form of Settings.Value.
func (k Knob) DefaultText() string {
	var s Settings
	if k.set(&s, k.Default) != nil {
		return "" // Load refuses a table with such a default
	}
	return k.text(&s)
}

// short is a duration without zero parts: 2m, not 2m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
