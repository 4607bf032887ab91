package main

import "math"

// scores are means over the queries.
type scores struct {
	NDCG   float64 // at 10, binary gains
	Recall float64 // at 10
	MRR    float64 // at 10
}

// judge scores one ranking of at most ten ids.
func judge(ranking []string, relevant map[string]bool) scores {
	var s scores
	found, ideal := 0, 0.0
	for i, id := range ranking[:min(10, len(ranking))] {
		if !relevant[id] {
			continue
		}
		found++
		s.NDCG += 1 / math.Log2(float64(i)+2)
		if s.MRR == 0 {
			s.MRR = 1 / float64(i+1)
		}
	}
	for i := range min(10, len(relevant)) {
		ideal += 1 / math.Log2(float64(i)+2)
	}
	if ideal > 0 {
		s.NDCG /= ideal
		s.Recall = float64(found) / float64(len(relevant))
	}
	return s
}

func (s scores) plus(o scores) scores {
	return scores{s.NDCG + o.NDCG, s.Recall + o.Recall, s.MRR + o.MRR}
}

func (s scores) over(n int) scores {
	f := float64(max(n, 1))
	return scores{s.NDCG / f, s.Recall / f, s.MRR / f}
}
