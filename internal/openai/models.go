package openai

// Model is one entry of GET /v1/models. Root and MaxModelLen are the additions
// vLLM made to the shape; clients that do not know them ignore them.
type Model struct {
	ID          string `json:"id"`
	Object      string `json:"object"` // always "model"
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Root        string `json:"root"`                    // the served model behind an alias
	MaxModelLen int    `json:"max_model_len,omitempty"` // tokens of one input; 0 = not known
	Dimensions  int    `json:"dimensions,omitempty"`    // length of a vector; 0 = makes none
}

// ModelList is the reply to GET /v1/models.
type ModelList struct {
	Object string  `json:"object"` // always "list"
	Data   []Model `json:"data"`
}
