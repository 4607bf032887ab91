package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample is a vocabulary of n words with vectors that differ in every dimension.
func sample(n int) *vocabulary {
	v := &vocabulary{limit: n}
	for i := range n {
		w := word{text: strings.Repeat("a", i+1), rank: i * 7}
		for k := range w.vec {
			w.vec[k] = math.Sin(float64(i*dims+k)) + 0.2 // the 0.2 is what all words share
		}
		v.add(w)
	}
	return v
}

// The layer norm after the embedding must change nothing, or the weights of the words would be lost.
func TestRowsHaveMeanZeroAndMeanSquareOne(t *testing.T) {
	v := sample(50)
	mean := v.mean()
	check := func(name string, meaning *[dims]float64, logWeight float64) {
		t.Helper()
		out := make([]float32, width)
		row(meaning, logWeight, out)
		var sum, squares float64
		for _, x := range out {
			sum += float64(x)
			squares += float64(x) * float64(x)
		}
		if math.Abs(sum/width) > 1e-6 || math.Abs(squares/width-1) > 1e-6 {
			t.Errorf("%s: mean %g, mean square %g, want 0 and 1", name, sum/width, squares/width)
		}
		if got := out[weightDim]; got != float32(logWeight/2) {
			t.Errorf("%s: half the log weight is %g, want %g", name, got, logWeight/2)
		}
	}
	check("special token", &[dims]float64{}, specialLogWeight)
	for i := range v.words {
		m := meaning(&v.words[i], &mean)
		check(v.words[i].text, &m, logWeight(v.words[i].rank))
	}
}

func TestMeaningHasTheCommonLength(t *testing.T) {
	v := sample(5)
	mean := v.mean()
	m := meaning(&v.words[3], &mean)
	var squares float64
	for _, x := range m {
		squares += x * x
	}
	if got := math.Sqrt(squares); math.Abs(got-length) > 1e-12 {
		t.Errorf("length %g, want %d", got, length)
	}
	if zero := meaning(&word{vec: mean}, &mean); zero != [dims]float64{} {
		t.Error("the mean itself must mean nothing")
	}
}

func TestFrequentWordsWeighLess(t *testing.T) {
	// rank 0: p = 1/32.4 = 0.0309, a/(a+p) = 0.00323; rank 100000: p = 8.3e-7, a/(a+p) = 0.9917.
	for _, c := range []struct {
		rank int
		want float64
	}{{0, 0.00323}, {100000, 0.9917}} {
		if got := math.Exp(logWeight(c.rank)); math.Abs(got/c.want-1) > 1e-3 {
			t.Errorf("weight of rank %d is %g, want %g", c.rank, got, c.want)
		}
	}
	if special, the := float64(specialLogWeight), logWeight(0); special > the-3 {
		t.Errorf("special tokens weigh e^%g, too close to the most frequent word's e^%g", special, the)
	}
}

// The value matrix takes the common direction out and leaves what is perpendicular to it.
func TestValueMatrixRemovesTheCommonDirection(t *testing.T) {
	v := sample(40)
	shared := common(v)
	var other [dims]float64 // perpendicular to shared
	other[0], other[1] = shared[1], -shared[0]
	for _, tensor := range tensors(v) {
		if tensor.Name != "blk.0.attn_v.weight" {
			continue
		}
		values := make([]float32, width)
		for to := range dims {
			tensor.Fill(to, values)
			var removed, kept float64
			for from := range dims {
				removed += float64(values[from]) * shared[from]
				kept += float64(values[from]) * other[from]
			}
			if math.Abs(removed) > 1e-6 || math.Abs(kept-other[to]) > 1e-6 {
				t.Fatalf("component %d: %g of the common direction is left, %g of another is %g", to, removed, other[to], kept)
			}
		}
		return
	}
	t.Fatal("there is no value matrix")
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]bool{
		"word": true, "b2b": true, "the": true, ",": true, "'": true,
		"": false, "u.s.": false, "co-op": false, "café": false, "Word": false, "…": false, "a b": false,
	} {
		if got := isToken(text); got != want {
			t.Errorf("isToken(%q) = %v", text, got)
		}
	}
}

func TestVocabularyKeepsTheMostFrequentAndTheMeanOfAll(t *testing.T) {
	v := &vocabulary{limit: 2}
	for i, text := range []string{"one", "u.s.", "two", "three"} {
		v.add(word{text: text, rank: i, vec: [dims]float64{float64(i)}})
	}
	if len(v.words) != 2 || v.words[0].text != "one" || v.words[1].text != "two" || v.words[1].rank != 2 {
		t.Errorf("words are %+v", v.words)
	}
	if got := v.mean()[0]; got != 1.5 {
		t.Errorf("mean is %g, want 1.5", got)
	}
}

func TestReadVectors(t *testing.T) {
	numbers := strings.Repeat("0.25,", dims) + "2.5,1"
	for _, c := range []struct{ name, file, want string }{
		{"good", `{"size":1,"words":["x"],"vectors":{"x":[` + numbers + `]},"unkVector":[0]}`, ""},
		{"short vector", `{"vectors":{"x":[1,2]}}`, "2 numbers"},
		{"cut off", `{"vectors":{"x":[` + numbers + `]`, "EOF"},
		{"no object", `[1]`, "expected an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "v.json")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			var got []word
			err := readVectors(path, func(w word) { got = append(got, w) })
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].text != "x" || got[0].rank != 1 || got[0].vec[99] != 0.25 {
				t.Errorf("words are %+v", got)
			}
		})
	}
}

func TestAnotherFileThanExpectedIsRefused(t *testing.T) {
	dir := t.TempDir()
	vectors := filepath.Join(dir, "v.json")
	file := `{"vectors":{"x":[` + strings.Repeat("0.25,", dims) + `2.5,0]}}`
	if err := os.WriteFile(vectors, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "model.gguf")
	err := write(vectors, out, false)
	if err == nil || !strings.Contains(err.Error(), wantSHA256) {
		t.Errorf("error %v, want one that names the expected SHA-256", err)
	}
	if left, _ := filepath.Glob(out + "*"); len(left) != 0 {
		t.Errorf("%v is left behind", left)
	}
}
