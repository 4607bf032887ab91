package search_test

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/search"
)

var koreanShelf = map[string]string{
	"예산.md":      "# 2026년도 예산안\n\n정부는 내년도 예산안을 국회에 제출하였다. 연구개발 투자는 지난해보다 늘어났다.\n",
	"보안.md":      "# 점검 결과\n\n보안취약점이 세 건 발견되어 긴급 패치를 적용했다. 외부 공격을 막는 규칙도 추가했다.\n",
	"젠킨스.md":     "# 배포 자동화\n\nJenkins파이프라인을 다시 작성했다. 빌드 단계와 배포 단계를 나누었다.\n",
	"계약.md":      "# 임대차계약서\n\n보증금은 계약 종료와 동시에 반환한다. 월세는 매달 말일에 지급한다.\n",
	"커버리지.md":    "# 테스트 보고\n\n테스트 커버리지가 80%를 넘었다. 부족한 모듈은 다음 분기에 보강한다.\n",
	"온돌.md":      "# 온돌\n\n온돌은 아궁이의 열기로 바닥을 데우는 한국의 전통 난방이다. 구들장이 열을 오래 품는다.\n",
	"김치.md":      "# 김장 준비\n\n배추를 소금물에 하룻밤 절인다. 고춧가루와 젓갈로 양념을 만들어 속을 채운다.\n",
	"휴가.md":      "# 휴가 규정\n\n연차휴가는 입사일을 기준으로 부여한다. 사용하지 않은 휴가는 이듬해로 넘길 수 없다.\n",
	"회의.md":      "# 주간회의록\n\n다음 회의는 월요일 오전 열 시에 시작한다. 자료는 미리 공유한다.\n",
	"서버.md":      "# 장애 대응\n\n서버가 응답하지 않으면 로그를 먼저 확인하고 재시작한다. 원인 분석은 사흘 안에 끝낸다.\n",
	"설치.md":      "# 시작하기\n\n패키지를 내려받아 설치합니다. 설정 파일은 홈 디렉터리에 만들어집니다.\n",
	"여행.md":      "# 제주도 여행\n\n한라산은 새벽에 오르는 것이 좋다. 올레길은 바닷가를 따라 이어진다.\n",
	"건강.md":      "# 건강검진 안내\n\n검진 전날 저녁 아홉 시부터는 물도 마시지 않는다. 결과지는 우편으로 보낸다.\n",
	"자동차.md":     "# 차량 정비\n\n엔진오일은 만 킬로미터마다 교환한다. 타이어 공기압은 달마다 잰다.\n",
	"역사.md":      "# 훈민정음\n\n세종대왕은 백성을 위하여 새 글자를 만들었다. 한글은 소리를 적는 글자이다.\n",
	"데이터.md":     "# 데이터베이스 이전\n\nPostgreSQL에서 SQLite로 옮기면서 색인을 다시 만들었다. getUserId 함수는 그대로 둔다.\n",
	"개인정보.md":    "# 개인정보처리방침\n\n수집한 정보는 목적을 이룬 뒤 지체 없이 파기한다.\n",
	"머신러닝.md":    "# 모델 학습\n\n학습률을 낮추자 손실이 안정되었다. 검증 데이터로 조기 종료를 판단했다.\n",
	"영수증.md":     "# 지출 내역\n\n점심 식대 12,000원, 택시비 8,500원. 영수증은 경리팀에 제출한다.\n",
	"decomp.txt": "",
}

func init() {
	// A file as macOS writes it: name and text decomposed.
	koreanShelf["decomp.txt"] = norm.NFD.String("맥에서 옮긴 파일이다. 자모가 풀어져 있어도 찾을 수 있어야 한다.\n")
}

// The kinds of query that Korean search is known to fail at, and for each the
// file that has to come first.
func TestKoreanQueries(t *testing.T) {
	l := shelve(t, koreanShelf, nil)
	s := l.searcher(t, nil, search.Trust{})
	cases := []struct{ kind, query, want string }{
		{"noun inside a word with a particle", "예산", "예산.md"},
		{"noun of two syllables", "공격", "보안.md"},
		{"noun of two syllables", "분석", "서버.md"},
		{"noun of two syllables", "설정", "설치.md"},
		{"first half of a compound", "계약", "계약.md"},
		{"second half of a compound", "취약점", "보안.md"},
		{"compound written apart", "보안 취약점", "보안.md"},
		{"compound written apart", "개인 정보 처리 방침", "개인정보.md"},
		{"compound written apart", "연차 휴가", "휴가.md"},
		{"words written together", "테스트커버리지", "커버리지.md"},
		{"words written together", "전통난방", "온돌.md"},
		{"hangul glued to latin", "파이프라인", "젠킨스.md"},
		{"latin glued to hangul", "jenkins", "젠킨스.md"},
		{"latin glued to hangul", "Jenkins 파이프라인", "젠킨스.md"},
		{"particle in the query", "커버리지를", "커버리지.md"},
		{"particle in the query", "배추에서는", "김치.md"},
		{"particle in the query", "한라산으로", "여행.md"},
		{"particle behind latin", "PostgreSQL을", "데이터.md"},
		{"another ending", "설치하는", "설치.md"},
		{"another ending", "교환하려면", "자동차.md"},
		{"another ending", "제출합니다", "예산.md|영수증.md"},
		{"question", "보증금은 언제 돌려받을 수 있나요", "계약.md"},
		{"question", "서버가 응답하지 않을 때 어떻게 해야 하나요", "서버.md"},
		{"question", "사용하지 않은 휴가는 다음 해로 넘길 수 있나요", "휴가.md"},
		{"question", "검진 전에 물을 마셔도 되나요", "건강.md"},
		{"question", "한글을 만든 사람은 누구인가요", "역사.md"},
		{"request", "엔진오일 교환 주기 알려줘", "자동차.md"},
		{"identifier in a Korean sentence", "getUserId 함수", "데이터.md"},
		{"number with a unit", "택시비 8,500원", "영수증.md"},
		{"one syllable", "물", "건강.md|김치.md"},
		{"decomposed text", "자모가 풀어진 파일", "decomp.txt"},
		{"decomposed query", norm.NFD.String("구들장"), "온돌.md"},
		{"quoted phrase", `"조기 종료"`, "머신러닝.md"},
	}
	if len(cases) != 33 {
		t.Fatalf("%d cases", len(cases))
	}
	hits := 0
	for _, tc := range cases {
		reply := ask(t, s, search.Request{Query: tc.query})
		got := l.names(reply.Results)
		if len(got) > 0 && strings.Contains("|"+tc.want+"|", "|"+got[0]+"|") {
			hits++
			continue
		}
		t.Logf("%s %q: want %s, got %v (near misses %v)", tc.kind, tc.query, tc.want, got, l.names(reply.NearMisses))
	}
	t.Logf("%d of %d", hits, len(cases))
	if hits < 31 {
		t.Errorf("%d of %d queries found their file first, at least 31 must", hits, len(cases))
	}
}

// What a Korean query has nothing to do with must not be called an answer.
func TestKoreanNoEvidence(t *testing.T) {
	l := shelve(t, koreanShelf, nil)
	s := l.searcher(t, nil, search.Trust{})
	for _, query := range []string{"양자역학", "축구 국가대표 명단", "주식 시장 폭락", "강아지 훈련 방법", "피아노 악보", "부동산 양도소득세 계산", "결혼식 축사"} {
		if reply := ask(t, s, search.Request{Query: query}); reply.Evidence.Found || len(reply.Results) > 0 {
			t.Errorf("%q: %+v %v", query, reply.Evidence, l.names(reply.Results))
		}
	}
}
