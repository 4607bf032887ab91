package vector_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ondol-app/ondol/internal/vector"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

func unit(dim int) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(i%7) - 2.5
	}
	if err := vector.Normalize(v); err != nil {
		panic(err)
	}
	return v
}

func TestCheck(t *testing.T) {
	good := unit(8)
	with := func(i int, x float32) []float32 {
		v := unit(8)
		v[i] = x
		return v
	}
	scaled := func(by float32) []float32 {
		v := unit(8)
		for i := range v {
			v[i] *= by
		}
		return v
	}
	constant := []float32{.5, .5, .5, .5}
	tests := []struct {
		name    string
		vectors [][]float32
		want    vector.Expect
		invalid []vector.Problem
	}{
		{"valid", [][]float32{good, good}, vector.Expect{Count: 2, Dim: 8, Normalized: true}, nil},
		{"any dimension", [][]float32{good}, vector.Expect{Count: 1}, nil},
		{"none asked, none given", nil, vector.Expect{}, nil},
		{"too few", [][]float32{good}, vector.Expect{Count: 2}, []vector.Problem{{vector.WholeReply, vector.ReasonCount}}},
		{"too many", [][]float32{good, good}, vector.Expect{Count: 1}, []vector.Problem{{vector.WholeReply, vector.ReasonCount}}},
		{"wrong dimension", [][]float32{good, good[:7]}, vector.Expect{Count: 2, Dim: 8}, []vector.Problem{{1, vector.ReasonDimension}}},
		// Any dimension still means one dimension.
		{"mixed dimensions", [][]float32{good, good[:7]}, vector.Expect{Count: 2}, []vector.Problem{{1, vector.ReasonDimension}}},
		{"empty vector", [][]float32{{}}, vector.Expect{Count: 1}, []vector.Problem{{0, vector.ReasonDimension}}},
		{"nan", [][]float32{good, with(3, nan)}, vector.Expect{Count: 2, Dim: 8}, []vector.Problem{{1, vector.ReasonNotFinite}}},
		{"infinity", [][]float32{with(0, inf), with(7, -inf)}, vector.Expect{Count: 2, Dim: 8},
			[]vector.Problem{{0, vector.ReasonNotFinite}, {1, vector.ReasonNotFinite}}},
		{"all nan", [][]float32{{nan, nan}}, vector.Expect{Count: 1}, []vector.Problem{{0, vector.ReasonNotFinite}}},
		{"largest floats are finite", [][]float32{{math.MaxFloat32, -math.MaxFloat32}}, vector.Expect{Count: 1}, nil},
		{"zero", [][]float32{make([]float32, 8)}, vector.Expect{Count: 1, Dim: 8}, []vector.Problem{{0, vector.ReasonZero}}},
		{"nearly zero", [][]float32{{9e-7, 0}}, vector.Expect{Count: 1}, []vector.Problem{{0, vector.ReasonZero}}},
		{"small but a direction", [][]float32{{2e-6, 0}}, vector.Expect{Count: 1}, nil},
		{"norm 0.98", [][]float32{scaled(.98)}, vector.Expect{Count: 1, Normalized: true}, []vector.Problem{{0, vector.ReasonNorm}}},
		{"norm 1.02", [][]float32{scaled(1.02)}, vector.Expect{Count: 1, Normalized: true}, []vector.Problem{{0, vector.ReasonNorm}}},
		{"norm 0.995", [][]float32{scaled(.995)}, vector.Expect{Count: 1, Normalized: true}, nil},
		{"norm free", [][]float32{scaled(12)}, vector.Expect{Count: 1}, nil},
		{"constant", [][]float32{good[:4], constant}, vector.Expect{Count: 2}, []vector.Problem{{1, vector.ReasonConstant}}},
		{"one component is never constant", [][]float32{{1}}, vector.Expect{Count: 1, Normalized: true}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := vector.Check(tt.vectors, tt.want)
			if tt.invalid == nil {
				if err != nil {
					t.Fatalf("Check = %v, want valid", err)
				}
				return
			}
			var invalid *vector.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("Check = %v, want *InvalidError", err)
			}
			if diff := cmp.Diff(tt.invalid, invalid.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidErrorNamesInputs(t *testing.T) {
	err := &vector.InvalidError{Problems: []vector.Problem{{0, vector.ReasonZero}, {2, vector.ReasonNotFinite}}}
	if got, want := err.Error(), "invalid vector: input 0 (zero), input 2 (not_finite)"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	shifted := err.Shift(32)
	if diff := cmp.Diff([]int{32, 34}, shifted.Indices()); diff != "" {
		t.Errorf("shifted indices (-want +got):\n%s", diff)
	}
	whole := (&vector.InvalidError{Problems: []vector.Problem{{vector.WholeReply, vector.ReasonCount}}}).Shift(32)
	if got, want := whole.Error(), "invalid vector: the reply (count)"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	many := &vector.InvalidError{}
	for i := range 2048 {
		many.Problems = append(many.Problems, vector.Problem{Index: i, Reason: vector.ReasonZero})
	}
	if got := many.Error(); len(got) > 600 || !strings.HasSuffix(got, "and 2032 more") {
		t.Errorf("Error() = %d bytes ending %q", len(got), got[len(got)-20:])
	}
}

func encoded(v []float32) []byte {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.AppendEncode(nil, raw)
}

func TestBase64(t *testing.T) {
	v := []float32{0, 1, -1.5, math.SmallestNonzeroFloat32, math.MaxFloat32, inf}
	got, err := vector.DecodeBase64(encoded(v))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, got); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
	// 1.0f is 00 00 80 3f in little-endian order.
	if got, err := vector.DecodeBase64([]byte("AACAPw==")); err != nil || len(got) != 1 || got[0] != 1 {
		t.Errorf("one = %v, %v", got, err)
	}
	got, err = vector.DecodeBase64(encoded([]float32{nan}))
	if err != nil || len(got) != 1 || got[0] == got[0] {
		t.Errorf("NaN came back as %v, %v", got, err)
	}
	// Every length about those that are decoded at a time, with and without
	// line ends, which the standard decoder passes over.
	for _, n := range []int{1, 2, 191, 192, 193, 384, 385, 2560} {
		v := unit(n)
		text := encoded(v)
		for _, text := range [][]byte{text, append([]byte("\r\n"), text...), append(text[:len(text):len(text)], '\n')} {
			if got, err := vector.DecodeBase64(text); err != nil || !slices.Equal(got, v) {
				t.Errorf("%d floats: %d came back, %v", n, len(got), err)
			}
		}
	}
	for _, bad := range []string{"AACAPw", "@@@@", "AACAPw==AACAPw==", base64.StdEncoding.EncodeToString([]byte{1, 2, 3}),
		strings.Repeat("A", 1022) + "==AAAAAA==", strings.Repeat("A", 1028)} {
		if _, err := vector.DecodeBase64([]byte(bad)); !errors.Is(err, vector.ErrEncoding) {
			t.Errorf("DecodeBase64(%q) = %v, want ErrEncoding", bad, err)
		}
	}
}

func TestDecodeJSON(t *testing.T) {
	tests := []struct {
		in   string
		want []float32
	}{
		{`[]`, []float32{}},
		{`[1]`, []float32{1}},
		{" [ 0.25 , -3e-2,\n1E+1 ] ", []float32{.25, -.03, 10}},
		{`[null,null,0.5]`, []float32{nan, nan, .5}},
		{`[1,"2",3]`, []float32{1, nan, 3}},
		{`[1,"a,b",3]`, []float32{1, nan, 3}},
		{`[true,{"a":1},[1,2]]`, []float32{nan, nan, nan}},
		{`[1e39,-1e39]`, []float32{inf, -inf}},
	}
	equalNaNs := cmp.Comparer(func(a, b float32) bool { return a == b || a != a && b != b })
	for _, tt := range tests {
		got, err := vector.DecodeJSON([]byte(tt.in))
		if err != nil {
			t.Errorf("DecodeJSON(%s): %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, equalNaNs); diff != "" {
			t.Errorf("DecodeJSON(%s) (-want +got):\n%s", tt.in, diff)
		}
	}
	for _, bad := range []string{``, `null`, `1`, `"AACAPw=="`, `[NaN]`, `[Infinity]`, `[1,]`, `[,1]`, `[1 2]`, `[+1]`, `[.5]`, `[0x1]`, `[1`, `{}`} {
		if v, err := vector.DecodeJSON([]byte(bad)); !errors.Is(err, vector.ErrEncoding) {
			t.Errorf("DecodeJSON(%s) = %v, %v, want ErrEncoding", bad, v, err)
		}
	}
}

// halves reads half floats by the definition of IEEE 754.
func halves(raw []byte) []float32 {
	v := make([]float32, len(raw)/2)
	for i := range v {
		h := binary.LittleEndian.Uint16(raw[2*i:])
		exponent, fraction := int(h>>10&0x1f), float64(h&0x3ff)
		x := math.Ldexp(1024+fraction, exponent-25)
		switch {
		case exponent == 0:
			x = math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			x = math.Inf(1)
		case exponent == 31:
			x = math.NaN()
		}
		if h&0x8000 != 0 {
			x = math.Copysign(x, -1)
		}
		v[i] = float32(x)
	}
	return v
}

func TestHalfFloats(t *testing.T) {
	// Every finite half is exact in float32 and must survive the round trip.
	for h := range 1 << 16 {
		v := halves([]byte{byte(h), byte(h >> 8)})
		back := vector.EncodeF16(v)
		got := int(back[0]) | int(back[1])<<8
		if v[0] != v[0] {
			if got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
				t.Fatalf("NaN → %#04x", got)
			}
			continue
		}
		if got != h {
			t.Fatalf("%#04x → %v → %#04x", h, v[0], got)
		}
	}
	tests := []struct {
		in   float32
		want float32
	}{
		{1, 1}, {-2, -2}, {65504, 65504}, {65519, 65504}, {65520, inf}, {-1e9, -inf},
		{1 + 0x1p-11, 1},                   // tie, even below
		{1 + 3*0x1p-11, 1 + 0x1p-9},        // tie, even above
		{1 + 0x1.02p-11, 1 + 0x1p-10},      // above the tie
		{0x1p-24, 0x1p-24},                 // smallest subnormal
		{0x1p-25, 0},                       // tie to zero
		{0x1.8p-25, 0x1p-24},               // above the tie
		{0x1.ff8p-15, 0x1.ff8p-15},         // a subnormal that is exact
		{0x1.ffffp-15, 0x1p-14},            // rounds up into the normals
		{float32(math.Copysign(0, -1)), 0}, // -0 compares equal to 0
	}
	for _, tt := range tests {
		if got := halves(vector.EncodeF16([]float32{tt.in})); got[0] != tt.want {
			t.Errorf("half of %v = %v, want %v", tt.in, got, tt.want)
		}
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestHalfKeepsCosine(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		a, b := make([]float32, 1024), make([]float32, 1024)
		for i := range a {
			a[i], b[i] = float32(random.NormFloat64()), float32(random.NormFloat64())
		}
		if err := errors.Join(vector.Normalize(a), vector.Normalize(b)); err != nil {
			t.Fatal(err)
		}
		ha, hb := halves(vector.EncodeF16(a)), halves(vector.EncodeF16(b))
		if d := math.Abs(dot(a, b) - dot(ha, hb)); d > 1e-4 {
			t.Fatalf("cosine moved by %v", d)
		}
	}
}

func TestNormTruncate(t *testing.T) {
	a := []float32{1, 2, 3, 4, 5, 6, 7}
	if got := vector.Norm([]float32{3, 4}); got != 5 {
		t.Errorf("Norm = %v, want 5", got)
	}
	cut, err := vector.Truncate(a, 2)
	if err != nil || math.Abs(vector.Norm(cut)-1) > 1e-6 || cut[1] != 2*cut[0] {
		t.Errorf("Truncate = %v, %v", cut, err)
	}
	if a[0] != 1 {
		t.Error("Truncate changed its input")
	}
	for _, dim := range []int{-1, 0, 8} {
		if _, err := vector.Truncate(a, dim); !errors.Is(err, vector.ErrDimensions) {
			t.Errorf("Truncate to %d: %v, want ErrDimensions", dim, err)
		}
	}
	if _, err := vector.Truncate([]float32{0, 0, 1}, 2); !errors.Is(err, vector.ErrNoDirection) {
		t.Errorf("Truncate to nothing: %v, want ErrNoDirection", err)
	}
	for _, v := range [][]float32{{0, 0}, {nan, 1}, {inf, 1}} {
		if err := vector.Normalize(v); !errors.Is(err, vector.ErrNoDirection) {
			t.Errorf("Normalize(%v) = %v, want ErrNoDirection", v, err)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{`[1,2]`, `[null]`, `["1"]`, `[1e400]`, `[-]`, `[1-2]`, ` []`, `[01]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := vector.DecodeJSON(raw)
		if err == nil && v == nil {
			t.Fatalf("DecodeJSON(%q) = nil without an error", raw)
		}
		// null must never come out as a number.
		if err == nil && strings.Contains(string(raw), "null") {
			for _, x := range v {
				if x != x {
					return
				}
			}
			if !strings.Contains(string(raw), `"`) {
				t.Fatalf("DecodeJSON(%q) = %v lost null", raw, v)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	vectors := [][]float32{unit(2560)}
	for b.Loop() {
		if err := vector.Check(vectors, vector.Expect{Count: 1, Dim: 2560, Normalized: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeBase64(b *testing.B) {
	text := encoded(unit(2560))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := vector.DecodeBase64(text); err != nil {
			b.Fatal(err)
		}
	}
}
