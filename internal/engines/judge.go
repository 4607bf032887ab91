package engines

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/ondol-app/ondol/internal/canary"
	"github.com/ondol-app/ondol/internal/llamaclient"
	"github.com/ondol-app/ondol/internal/trial"
	"github.com/ondol-app/ondol/internal/vector"
)

// Limits where both engines run the same model. The cosine is that of the
// canaries (contract section 2); one below it moves a score by more than
// maxScore only when the vectors differ in an unlucky direction, which is then
// worth knowing.
const (
	minCosine  = canary.MinCosine
	minOverlap = 0.9
	maxScore   = 0.02
	minRanks   = 0.98

	best = 10 // passages of a search that are compared as what a person sees
)

// judge turns the figures into a verdict. It touches nothing.
func (x *exam) judge() *Verdict {
	live, cand := x.live, x.candidate
	v := &Verdict{
		Quick: x.quick, InPlace: x.inPlace, Texts: len(x.passages), Searches: len(x.searches),
		Live: live.subject(), Candidate: cand.subject(), SameModel: x.sameModel(),
		Rows: append(append([]trial.Row{}, live.trial.rows...), cand.trial.rows...), Reasons: append([]trial.Reason{}, cand.reasons...),
	}
	for _, row := range cand.trial.rows {
		v.Requests += row.Requests
	}
	v.Findings = append(v.Findings,
		Finding{Check: CheckStart, Value: v.Candidate.LoadMS, Bound: NoBound, Pass: true},
		dimension(live, cand, v.SameModel), validity(cand), canaries(cand))
	v.Findings = append(v.Findings, endurance(cand))
	v.Findings = append(v.Findings, compare(live, cand, v.SameModel, x.agreed)...)
	v.Findings = append(v.Findings, speed(live, cand, v.SameModel, x.bench.limit()))
	v.Pass = len(v.Against()) == 0
	return v
}

// sameModel is by the file's hash: vectors must then be alike, text by text.
func (x *exam) sameModel() bool {
	hash := x.live.status.Model.SHA256
	return hash != "" && hash == x.candidate.status.Model.SHA256
}

func number(x float64) *float64 { return &x }

func (m *measured) subject() Subject {
	s := m.status
	subject := Subject{Model: s.Model.Name, SHA256: s.Model.SHA256, Version: s.Version, Profile: s.Profile, Flags: append([]string{}, s.Flags...),
		Fingerprint: s.Fingerprint, Dimension: m.instance.Dim, RSSBytes: m.rss}
	if s.LoadMS > 0 {
		subject.LoadMS = number(float64(s.LoadMS))
	}
	subject.P50MS, subject.MediumP50MS = quantile(m.trial.times(trial.Short), 0.5), quantile(m.trial.times(trial.Medium), 0.5)
	subject.P95MS, subject.TokensPerS = quantile(m.trial.times(""), 0.95), m.trial.tokensPerSecond()
	return subject
}

// dimension compares the components of a vector with those of the live engine,
// where it runs the same model, else with what the model's file tells.
func dimension(live, cand *measured, same bool) Finding {
	f := Finding{Check: CheckDimension, Value: number(float64(cand.instance.Dim)), Bound: Exactly, Fatal: true}
	want := cand.header
	if same && live.instance.Dim > 0 {
		want = live.instance.Dim
	}
	if want == 0 {
		f.Bound, f.Pass, f.Detail = NoBound, cand.instance.Dim > 0, "not_told"
		return f
	}
	f.Limit, f.Pass = number(float64(want)), cand.instance.Dim == want
	return f
}

func validity(cand *measured) Finding {
	f := Finding{Check: CheckValid, Bound: AtLeast, Limit: number(1), Fatal: true, Detail: cmp.Or(detail(cand.err), cand.bad)}
	if cand.asked > 0 {
		f.Value = number(float64(cand.valid) / float64(cand.asked))
	}
	f.Pass = cand.err == nil && cand.asked > 0 && cand.valid == cand.asked
	return f
}

// endurance is the share of the trial's requests that were answered in time,
// as they should be. There may be none that the engine could be given.
func endurance(cand *measured) Finding {
	if cand.untried != "" {
		return Finding{Check: CheckTrial, Bound: NoBound, Pass: true, Detail: cand.untried}
	}
	f := Finding{Check: CheckTrial, Bound: AtLeast, Limit: number(1)}
	asked := 0
	for _, row := range cand.trial.rows {
		asked += row.Requests
	}
	if cand.err != nil || asked == 0 {
		f.Detail = detailNotMeasured
		return f
	}
	f.set(float64(len(cand.trial.samples)) / float64(asked))
	f.Pass = f.Pass && len(cand.reasons) == 0
	if len(cand.reasons) > 0 {
		f.Detail = cand.reasons[0].Code.String()
	}
	return f
}

// canaries tells how the engine did when it was started; one that failed alone
// is not there to be judged.
func canaries(cand *measured) Finding {
	f := Finding{Check: CheckCanaries, Bound: NoBound, Pass: true, Detail: detailNotMeasured}
	if c := cand.status.Canary; c != nil && c.MinTogether != nil {
		f = Finding{Check: CheckCanaries, Value: c.MinTogether, Bound: AtLeast, Limit: number(canary.MinCosine), Pass: true}
	}
	if cand.status.OneAtATime != nil {
		f.Pass, f.Detail = false, "one_at_a_time"
	}
	return f
}

// detail is a code for what went wrong.
func detail(err error) string {
	if invalid, ok := errors.AsType[*vector.InvalidError](err); ok && len(invalid.Problems) > 0 {
		return string(invalid.Problems[0].Reason)
	}
	long := new(llamaclient.ContextError)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &long):
		return "context"
	}
	return "no_answer"
}

// compare looks at what both engines make of the same texts. Two models need
// not agree, so that their figures are only told.
func compare(live, cand *measured, same bool, agreed *float64) []Finding {
	bound := func(check Check, b Bound, limit float64) Finding {
		if !same {
			return Finding{Check: check, Bound: NoBound, Pass: true}
		}
		return Finding{Check: check, Bound: b, Limit: number(limit)}
	}
	overlap, scores, ranks := bound(CheckOverlap, AtLeast, minOverlap), bound(CheckScores, AtMost, maxScore), bound(CheckRanks, AtLeast, minRanks)
	list := []*Finding{&overlap, &scores, &ranks}
	vectors := bound(CheckVectors, AtLeast, minCosine)
	if same {
		list = append([]*Finding{&vectors}, list...)
	}
	switch {
	case live.err != nil:
		for _, f := range list {
			f.Pass, f.Detail = false, detailNoLive
		}
	case cand.err != nil:
		for _, f := range list {
			f.Pass, f.Detail = false, detailNotMeasured
		}
	default:
		if same && live.instance.Dim == cand.instance.Dim {
			low := least(live.passages, cand.passages)
			if agreed != nil {
				low = min(low, *agreed)
			}
			vectors.set(low)
		}
		all := rankings(live, cand)
		overlap.set(all.overlap)
		scores.set(all.score)
		ranks.set(all.correlation)
	}
	findings := make([]Finding, len(list))
	for i, f := range list {
		findings[i] = *f
	}
	return findings
}

// set judges a value.
func (f *Finding) set(value float64) {
	f.Value = number(value)
	switch f.Bound {
	case AtLeast:
		f.Pass = value >= *f.Limit
	case AtMost:
		f.Pass = value <= *f.Limit
	}
}

// least is the lowest cosine of two vectors of one text.
func least(a, b [][]float32) float64 {
	low := 1.0
	for i := range a {
		low = min(low, cosine(a[i], b[i]))
	}
	return low
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	return dot / math.Sqrt(aa*bb) // valid vectors are not zero
}

// agreement is how alike two engines rank the same passages.
type agreement struct {
	overlap     float64 // share of the best that both have, mean over the searches
	score       float64 // largest difference of a score
	correlation float64 // Spearman's, mean over the searches
}

func rankings(live, cand *measured) agreement {
	var sum agreement
	for q := range live.searches {
		a, b := scores(live.searches[q], live.passages), scores(cand.searches[q], cand.passages)
		for i := range a {
			sum.score = max(sum.score, math.Abs(a[i]-b[i]))
		}
		sum.overlap += shared(a, b)
		sum.correlation += pearson(ranks(a), ranks(b))
	}
	n := float64(len(live.searches))
	sum.overlap, sum.correlation = sum.overlap/n, sum.correlation/n
	return sum
}

func scores(query []float32, passages [][]float32) []float64 {
	list := make([]float64, len(passages))
	for i, p := range passages {
		list[i] = cosine(query, p)
	}
	return list
}

// order is the passages by falling score.
func order(scores []float64) []int {
	places := make([]int, len(scores))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	return places
}

// shared is the share of the best passages by a that are among the best by b.
func shared(a, b []float64) float64 {
	n := min(best, len(a))
	of, common := order(b)[:n], 0
	for _, place := range order(a)[:n] {
		if slices.Contains(of, place) {
			common++
		}
	}
	return float64(common) / float64(n)
}

// ranks numbers the scores from the best; equal ones share the mean of theirs.
func ranks(scores []float64) []float64 {
	places := order(scores)
	list := make([]float64, len(scores))
	for i := 0; i < len(places); {
		j := i
		for j < len(places) && scores[places[j]] == scores[places[i]] {
			j++
		}
		for _, place := range places[i:j] {
			list[place] = float64(i+j-1) / 2
		}
		i = j
	}
	return list
}

// pearson is the correlation; 1 where neither varies.
func pearson(a, b []float64) float64 {
	var ma, mb float64
	for i := range a {
		ma, mb = ma+a[i], mb+b[i]
	}
	n := float64(len(a))
	ma, mb = ma/n, mb/n
	var ab, aa, bb float64
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	switch {
	case aa == 0 && bb == 0:
		return 1
	case aa == 0 || bb == 0:
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// speed compares the times of the trial. Those of another model are told, not
// judged: a larger one is slower, and is wanted for what it finds.
func speed(live, cand *measured, same bool, limit float64) Finding {
	f := Finding{Check: CheckSpeed, Bound: AtMost, Limit: number(limit)}
	if !same {
		f = Finding{Check: CheckSpeed, Bound: NoBound, Pass: true}
	}
	ratio, ok := slowdown(live.trial, cand.trial)
	switch {
	case ok:
		f.set(ratio)
	case cand.untried != "":
		f = Finding{Check: CheckSpeed, Bound: NoBound, Pass: true, Detail: cand.untried}
	case live.err != nil || len(live.trial.samples) == 0:
		f.Pass, f.Detail = false, detailNoLive
	default:
		f.Pass, f.Detail = false, detailNotMeasured
	}
	return f
}

// quantile is the value that the share q does not exceed (nearest rank); nil
// of none.
func quantile(values []float64, q float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	return number(sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)])
}
