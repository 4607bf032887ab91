package search

// Trust says how far the vectors of one fingerprint can be believed. All
// cosines are raw, so the figures belong to a model and not to a query.
type Trust struct {
	Weight     float64 // share of meaning in a score where the words of the query are fully covered, 0 … 1
	Rescue     float64 // by how much Weight grows, as a multiple of itself, where no word is covered
	Floor      float64 // cosine of a passage that has nothing to do with the query; below it meaning counts nothing
	Strong     float64 // cosine of a passage that answers it; above it meaning counts fully
	Evidence   float64 // cosine from which a passage is evidence without a shared word, whatever the rest of the index
	Support    float64 // cosine from which a passage is evidence beside some of the words
	Near       float64 // cosine from which a passage is evidence if it stands out by Margin as well
	Margin     float64 // spreads of the query's background by which it has to, beyond what chance gives
	Background float64 // cosine of a short query and a document that has nothing to do with it, in the middle …
	Spread     float64 // … and its standard deviation; what is believed until the index has documents enough
}

// WeakTrust is for models far behind word search, such as the starter model,
// and for those nobody has measured. Measured with the starter model; the
// figures are in design.md.
func WeakTrust() Trust {
	return Trust{Weight: 0.12, Rescue: 2, Floor: 0.3, Strong: 0.9, Evidence: 0.62, Support: 0.5,
		Near: 0.38, Margin: 1.5, Background: 0.08, Spread: 0.1}
}

// StrongTrust is for models trained for retrieval. Its cosines are those the
// Qwen3-Embedding authors give: 0.76 and 0.60 for relevant pairs, 0.14 for
// others.
func StrongTrust() Trust {
	return Trust{Weight: 0.5, Rescue: 0.6, Floor: 0.2, Strong: 0.75, Evidence: 0.5, Support: 0.4,
		Near: 0.38, Margin: 1, Background: 0.14, Spread: 0.08}
}

// share is the weight of meaning for a query whose best passage covers this
// much of its words: words that are all there decide, missing ones leave room.
func (t Trust) share(coverage float64) float64 {
	return min(0.9, t.Weight*(1+t.Rescue*(1-coverage)))
}

// meaning maps a raw cosine to 0 … 1.
func (t Trust) meaning(cosine float64) float64 {
	return max(0, min(1, (cosine-t.Floor)/(t.Strong-t.Floor)))
}
