package search

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ondol-app/ondol/internal/document"
)

// shown cuts text where each of words stands; of equal weight unless given.
func shown(text string, kind document.Kind, words ...string) Snippet {
	var marks []document.Mark
	weight := make([]float64, len(words))
	for term, w := range words {
		weight[term] = 1
		for at := 0; ; at += len(w) {
			i := strings.Index(text[at:], w)
			if i < 0 {
				break
			}
			at += i
			marks = append(marks, document.Mark{Start: at, End: at + len(w), Term: term})
		}
	}
	slices.SortStableFunc(marks, func(a, b document.Mark) int { return a.Start - b.Start })
	return snippetOf(document.Passage{Chunk: document.Chunk{Text: text}, Document: document.Document{Kind: kind}, Marks: marks}, weight)
}

func TestSnippetBegins(t *testing.T) {
	minutes := "# 회의록\n\n- 때: 10월 셋째 주 목요일\n- 곳: 도서관 2층\n\n## 안건\n1. 내년도 살림\n2. 겨울철 개관 시간\n\n## 결정한 것\n" +
		"위원회는 내년도 예산안을 만장일치로 확정했다. 책을 사는 데 쓰는 돈은 늘리고, 낡은 난방기를\n바꾸는 비용을 새로 넣었다.\n\n## 다음 모임\n11월 목요일.\n"
	manual := "# Car manual\n\n## Brake pads\nPads thinner than three millimetres have to be replaced, always on both wheels of an axle. Watch the fluid.\n\n" +
		"## Timing belt\nThe timing belt is due every 100,000 kilometres. When it tears, the valves hit the pistons.\n"
	list := "# Advice\n\n| a | b |\n| --- | --- |\n| x | y |\n\n- **Moving.** Begin with short walks\n  on the flat.\n- **Eating.** Fish and olive oil.\n"
	filler := strings.Repeat("Filler without any point here. ", 30)
	long := strings.Repeat("one clause after another, ", 30) + "and then the floor is warm, " + strings.Repeat("one more clause, ", 30)
	code := "package user\n\nimport \"fmt\"\n\n// Reads the id.\nfunc getUserID() int {\n\tfmt.Println()\n\treturn 1\n}\n"
	for name, tc := range map[string]struct {
		text   string
		kind   document.Kind
		words  []string
		prefix string
		marks  []string
	}{
		"the sentence with the word":                           {minutes, "", []string{"예산"}, "위원회는 내년도 예산안을 만장일치로 확정했다.", []string{"예산"}},
		"it ends before the next heading":                      {minutes, "", []string{"비용"}, "책을 사는 데", []string{"비용"}},
		"a match in a heading draws the text below":            {manual, "", []string{"Timing"}, "The timing belt is due", nil},
		"a match in the text counts more":                      {manual, "", []string{"timing", "Brake"}, "The timing belt", []string{"timing"}},
		"without a match: prose":                               {manual, "", nil, "Pads thinner", nil},
		"without prose: an item without its bullet":            {list, "", nil, "**Moving.** Begin with short walks\n  on the flat.", nil},
		"an item with its first words":                         {list, "", []string{"short"}, "**Moving.** Begin with short walks", []string{"short"}},
		"a line that may be a title is no prose":               {"Touring along a river\n\nRivers make good first tours: the path is flat and villages are near.\n", "", nil, "Rivers make", nil},
		"two words together beat one":                          {"A pot. " + filler + "A warm pot. " + filler, "", []string{"warm", "pot"}, "A warm pot.", []string{"warm", "pot"}},
		"an endless sentence is cut before the word":           {long, "", []string{"floor"}, ellipsis, []string{"floor"}},
		"code begins at the line":                              {code, document.KindCode, []string{"getUserID"}, "func getUserID() int {", []string{"getUserID"}},
		"marks that touch become one":                          {"따뜻한 온돌방이다.", "", []string{"온돌", "돌방"}, "따뜻한 온돌방이다.", []string{"온돌방"}},
		"a heading alone is better than nothing":               {"# Only a heading", "", []string{"Only"}, "# Only a heading", []string{"Only"}},
		"a wrapped paragraph begins at the sentence":           {"It was late. The old\nfloor was warm\nand dry.", "", []string{"warm"}, "The old\nfloor was warm", []string{"warm"}},
		"the best of many, not the first of one":               {"A pot. A pot. " + filler + "It is warm; a pot.", "", []string{"pot", "warm"}, "It is warm", []string{"warm", "pot"}},
		"a line far into a long sentence is its own beginning": {strings.Repeat("alpha beta ", 20) + "\nhere is gamma " + strings.Repeat("delta ", 9), "", []string{"gamma"}, ellipsis + "here is gamma", []string{"gamma"}},
	} {
		s := shown(tc.text, tc.kind, tc.words...)
		var marks []string
		for _, m := range s.Marks {
			marks = append(marks, s.Text[m[0]:m[1]])
		}
		if !strings.HasPrefix(s.Text, tc.prefix) || !slices.Equal(marks, tc.marks) || len(s.Text) > snippetBytes+2*len(ellipsis) || s.Marks == nil {
			t.Errorf("%s: %d bytes, marks %q: %s", name, len(s.Text), marks, s.Text)
		}
		if strings.Contains(s.Text, "##") {
			t.Errorf("%s: a heading is shown: %s", name, s.Text)
		}
		if len(s.Marks) > 0 && s.Marks[0][0] > contextBytes+len(ellipsis) {
			t.Errorf("%s: %d bytes before the first mark: %s", name, s.Marks[0][0], s.Text)
		}
	}
	endless := strings.Repeat("긴", 3000)
	s := snippetOf(document.Passage{Chunk: document.Chunk{Text: endless}, Marks: []document.Mark{{Start: 6000, End: 6006}}}, []float64{1})
	if !utf8.ValidString(s.Text) || len(s.Text) > snippetBytes+2*len(ellipsis) || len(s.Marks) != 1 || s.Text[s.Marks[0][0]:s.Marks[0][1]] != "긴긴" ||
		!strings.HasPrefix(s.Text, ellipsis) || !strings.HasSuffix(s.Text, ellipsis) {
		t.Errorf("endless: %d bytes, %v", len(s.Text), s.Marks)
	}
}

func FuzzSnippet(f *testing.F) {
	f.Add("# a\nb c. d\ne 가나다", 3, 6, false)
	f.Add("- 1. | x", 5, 6, true)
	f.Fuzz(func(t *testing.T, text string, start, end int, code bool) {
		if !utf8.ValidString(text) || start < 0 || start >= end || end > len(text) || !utf8.RuneStart(text[start]) ||
			end < len(text) && !utf8.RuneStart(text[end]) || strings.TrimSpace(text) == "" {
			return
		}
		p := document.Passage{Chunk: document.Chunk{Text: text}, Marks: []document.Mark{{Start: start, End: end}}}
		if code {
			p.Document.Kind = document.KindCode
		}
		s := snippetOf(p, []float64{1})
		inside := func(t string) bool { return strings.Contains(text, t) }
		head, tail := strings.TrimPrefix(s.Text, ellipsis), strings.TrimSuffix(s.Text, ellipsis)
		if !inside(s.Text) && !inside(head) && !inside(tail) && !inside(strings.TrimSuffix(head, ellipsis)) {
			t.Errorf("%q is no part of %q", s.Text, text)
		}
		for _, m := range s.Marks {
			if m[0] < 0 || m[0] >= m[1] || m[1] > len(s.Text) || !utf8.ValidString(s.Text[m[0]:m[1]]) || !inside(s.Text[m[0]:m[1]]) {
				t.Errorf("mark %v in %q", m, s.Text)
			}
		}
	})
}
