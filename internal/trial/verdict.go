package trial

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ondol-app/ondol/internal/event"
)

// What is told of a trial that ended.
const (
	KindPassed event.Kind = "verify.passed" // id, ok, requests
	KindFailed event.Kind = "verify.failed" // and reasons: codes
)

// News is the event of a finished trial.
func (r Report) News() event.Event {
	good, kind := 0, KindPassed
	for _, row := range r.Rows {
		good += row.OK
	}
	args := []string{"id", r.ID, "ok", decimal(good), "requests", decimal(r.Requests)}
	if !r.Verdict.Pass {
		var codes []string
		for _, reason := range r.Verdict.Reasons {
			codes = append(codes, reason.Code.String())
		}
		kind, args = KindFailed, append(args, "reasons", strings.Join(slices.Compact(codes), ", "))
	}
	return event.New(kind, args...)
}

// judge says whether the trial passed: every request valid and in time, the
// paths agree, the gate at rest at the end, the engine the same and at work.
func judge(r *Report, changed []string) Verdict {
	reasons := []Reason{}
	add := func(code ReasonCode, pairs ...string) {
		reason := Reason{Code: code, Args: map[string]string{}}
		for i := 0; i+1 < len(pairs); i += 2 {
			reason.Args[pairs[i]] = pairs[i+1]
		}
		reasons = append(reasons, reason)
	}
	for _, path := range r.Paths {
		for _, kind := range []struct {
			outcome Outcome
			reason  ReasonCode
		}{{Late, ReasonLate}, {Invalid, ReasonInvalid}, {Failed, ReasonFailed}} {
			if count, codes := tally(r.Samples, path.Name, kind.outcome); count > 0 {
				add(kind.reason, "path", path.Name, "count", decimal(count), "codes", codes, "seconds", r.deadline())
			}
		}
	}
	for _, a := range r.Agreement {
		if a.Different > 0 {
			lowest := "-"
			if a.MinCosine != nil {
				lowest = fmt.Sprintf("%.6f", *a.MinCosine)
			}
			add(ReasonDifferent, "a", a.Paths[0], "b", a.Paths[1], "count", decimal(a.Different), "cosine", lowest)
		}
	}
	if e := r.AtEnd; e != nil && e.Clients() > 0 {
		add(ReasonNotIdle, "executing", decimal(e.Executing), "draining", decimal(e.Draining), "waiting", decimal(e.Waiting))
	}
	for _, name := range changed {
		add(ReasonEngineChanged, "path", name)
	}
	if asked := gatedOK(r); r.Cache != nil && r.Cache.Misses < uint64(asked) {
		add(ReasonCached, "computed", fmt.Sprint(r.Cache.Misses), "asked", decimal(asked))
	}
	return Verdict{Pass: len(reasons) == 0, Reasons: reasons}
}

// gatedOK is how many valid answers came through a gate.
func gatedOK(r *Report) int {
	n := 0
	for _, row := range r.Rows {
		if slices.ContainsFunc(r.Paths, func(p Path) bool { return p.Gated && p.Name == row.Path }) {
			n += row.OK
		}
	}
	return n
}

// tally counts the samples of a path that ended so, and lists their codes,
// most frequent first.
func tally(samples []Sample, path string, outcome Outcome) (count int, codes string) {
	byCode := map[string]int{}
	for _, s := range samples {
		if s.Path == path && s.Outcome == outcome {
			count++
			byCode[s.Code]++
		}
	}
	var list []string
	for code := range byCode {
		list = append(list, code)
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(byCode[b], byCode[a]), cmp.Compare(a, b))
	})
	return count, strings.Join(list, ", ")
}
