package engines

// fixedPassages and fixedSearches are compared on every machine, whatever its
// index holds. They are few, short, and in the languages, scripts and forms
// that an index holds; the searches have their answers among the passages.
var fixedPassages = []string{
	"The floor is heated from below by smoke that is led through stone channels before it leaves the house.",
	"온돌은 아궁이에서 나온 열기가 방바닥 아래를 지나가며 바닥을 덥히는 난방 방식이다.",
	"Water boils at a lower temperature on a mountain, because the air presses less.",
	"산 위에서는 기압이 낮아 물이 더 낮은 온도에서 끓는다.",
	"import os\n\ndef total(paths):\n    return sum(os.path.getsize(p) for p in paths)",
	"func Reverse(s []int) {\n\tfor i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {\n\t\ts[i], s[j] = s[j], s[i]\n\t}\n}",
	"SELECT name, count(*) FROM orders GROUP BY name HAVING count(*) > 3 ORDER BY 2 DESC;",
	"The lease ends on the last day of March; either side may give notice three months before.",
	"임대차 계약은 3월 말에 끝나며, 어느 쪽이든 석 달 전에 해지를 알릴 수 있다.",
	"Add the flour slowly, knead for ten minutes, and let the dough rest under a damp cloth.",
	"The train to the coast leaves every hour from platform four and takes ninety minutes.",
	"A violin has four strings, tuned in fifths, and is played with a bow of horsehair.",
	"Minutes: the budget was agreed, the new printer was put off, the next meeting is on Tuesday.",
	"회의록: 예산안은 통과되었고 프린터 구입은 다음으로 미루었으며 다음 회의는 화요일이다.",
	"Whales breathe air; they come to the surface, and some can stay below for more than an hour.",
	"The patient should take the tablets after meals, twice a day, and drink plenty of water.",
	"Error: connection refused while connecting to upstream, retrying in 5 seconds.",
	"Der Vertrag tritt am Tag nach seiner Unterzeichnung in Kraft.",
	"La bibliothèque ouvre à neuf heures, sauf le lundi.",
	"x-y, 3.14, 2026-11-30, https://example.org/a?b=c#d, user@example.org",
}

var fixedSearches = []string{
	"how is the floor of a Korean house heated",
	"방바닥을 데우는 방법",
	"why does water boil earlier on mountains",
	"reverse a slice",
	"when does the lease end",
	"계약 해지 통보 기간",
	"what was decided in the meeting",
	"how long can a whale dive",
}
