package catalog

import (
	"slices"

	"github.com/ondol-app/ondol/internal/upstream"
)

// Languages that a model was made for.
const (
	English      = "en"
	Multilingual = "multilingual" // a hundred and more, Korean and English among them
)

// Model is one entry. What it is for is a sentence of assets/locales, model.use.NAME.
type Model struct {
	Name         string        `json:"name"` // lower case; what a person writes
	Role         upstream.Role `json:"role"`
	Repo         string        `json:"repo"` // OWNER/REPO of the hub
	Revision     string        `json:"revision"`
	File         string        `json:"file"`
	Quantisation string        `json:"quantisation"`
	Size         int64         `json:"size"` // bytes
	SHA256       string        `json:"sha256"`
	Licence      string        `json:"licence"` // SPDX; LicenseRef-… where SPDX has none
	LicenceURL   string        `json:"licence_url"`
	Dim          int           `json:"dim,omitempty"` // of its vectors; 0 = it makes none
	Context      int           `json:"context"`       // longest input, tokens
	Languages    string        `json:"languages"`
	Profile      string        `json:"profile,omitempty"` // of engine.profile; empty = the role's own
}

const (
	apache    = "Apache-2.0"
	apacheURL = "https://www.apache.org/licenses/LICENSE-2.0"
)

// models is in the order shown: by role, then by size.
var models = []Model{
	{
		Name: "nomic-embed-text-v1.5", Role: upstream.RoleEmbed, Repo: "nomic-ai/nomic-embed-text-v1.5-GGUF",
		Revision: "0188c9bf409793f810680a5a431e7b899c46104c", File: "nomic-embed-text-v1.5.Q8_0.gguf", Quantisation: "Q8_0",
		Size: 146146432, SHA256: "3e24342164b3d94991ba9692fdc0dd08e3fd7362e0aacc396a9a5c54a544c3b7",
		Licence: apache, LicenceURL: apacheURL, Dim: 768, Context: 2048, Languages: English, Profile: "small",
	},
	{
		Name: "embeddinggemma-300m", Role: upstream.RoleEmbed, Repo: "ggml-org/embeddinggemma-300M-GGUF",
		Revision: "0f741b5a6585bd53aeb15cd1372c56f2a0f65e12", File: "embeddinggemma-300M-Q8_0.gguf", Quantisation: "Q8_0",
		Size: 333590944, SHA256: "b5ce9d77a3fc4b3b39ccb5643c36777911cc4eb46a66962eadfa3f5f60490d63",
		Licence: "LicenseRef-Gemma", LicenceURL: "https://ai.google.dev/gemma/terms", Dim: 768, Context: 2048, Languages: Multilingual, Profile: "small",
	},
	{
		Name: "bge-m3", Role: upstream.RoleEmbed, Repo: "ggml-org/bge-m3-Q8_0-GGUF",
		Revision: "9eba04c5d75ba5a1595e45de734d36bef4e5cb98", File: "bge-m3-q8_0.gguf", Quantisation: "Q8_0",
		Size: 634553760, SHA256: "aa473d51f451a22f0fcf39ba3330c14bed38a385712b1113440f69df4047a173",
		Licence: "MIT", LicenceURL: "https://huggingface.co/BAAI/bge-m3", Dim: 1024, Context: 8192, Languages: Multilingual, Profile: "small",
	},
	{
		Name: "qwen3-embedding-0.6b", Role: upstream.RoleEmbed, Repo: "Qwen/Qwen3-Embedding-0.6B-GGUF",
		Revision: "370f27d7550e0def9b39c1f16d3fbaa13aa67728", File: "Qwen3-Embedding-0.6B-Q8_0.gguf", Quantisation: "Q8_0",
		Size: 639150592, SHA256: "06507c7b42688469c4e7298b0a1e16deff06caf291cf0a5b278c308249c3e439",
		Licence: apache, LicenceURL: apacheURL, Dim: 1024, Context: 32768, Languages: Multilingual, Profile: "standard",
	},
	{
		Name: "qwen3-embedding-4b", Role: upstream.RoleEmbed, Repo: "Qwen/Qwen3-Embedding-4B-GGUF",
		Revision: "f4602530db1d980e16da9d7d3a70294cf5c190be", File: "Qwen3-Embedding-4B-Q8_0.gguf", Quantisation: "Q8_0",
		Size: 4279660224, SHA256: "b60ae5ce2dd6a0b77f82cadf21def1f310a3e10cde380ad0081b07a9d416949d",
		Licence: apache, LicenceURL: apacheURL, Dim: 2560, Context: 32768, Languages: Multilingual, Profile: "reference",
	},
	{
		Name: "qwen3-embedding-8b", Role: upstream.RoleEmbed, Repo: "Qwen/Qwen3-Embedding-8B-GGUF",
		Revision: "69d0e58a13e463cd99a9b83e3f5fee7c10265fab", File: "Qwen3-Embedding-8B-Q8_0.gguf", Quantisation: "Q8_0",
		Size: 8047105824, SHA256: "d20ddc71e8a5c4344f2343481e242233a997dc5eaff442427a945836c97b4deb",
		Licence: apache, LicenceURL: apacheURL, Dim: 4096, Context: 32768, Languages: Multilingual, Profile: "reference",
	},
	{
		Name: "bge-reranker-v2-m3", Role: upstream.RoleRerank, Repo: "gpustack/bge-reranker-v2-m3-GGUF",
		Revision: "3093af03b1a635e67b084b1d8c03c5f5e020fd05", File: "bge-reranker-v2-m3-Q8_0.gguf", Quantisation: "Q8_0",
		Size: 635676416, SHA256: "a43c7c9b11a4c1517e5bf95151960e1621d1b72f7a493364b01e386cf1aaa1d3",
		Licence: apache, LicenceURL: apacheURL, Context: 8192, Languages: Multilingual,
	},
	{
		// Of the conversions of this model, this one kept the head that scores.
		Name: "qwen3-reranker-0.6b", Role: upstream.RoleRerank, Repo: "ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF",
		Revision: "a02f48bb4f057028298c21fa033da2b30d7742d5", File: "qwen3-reranker-0.6b-q8_0.gguf", Quantisation: "Q8_0",
		Size: 639153184, SHA256: "22c9979ce4fbcdc5acdc310c6641c32797eff1aa980b8f7a2db8a8ea23429a48",
		Licence: apache, LicenceURL: apacheURL, Context: 32768, Languages: Multilingual,
	},
}

// Models is the list; the caller may keep it.
func Models() []Model { return slices.Clone(models) }

// Names are the names of the list, in its order.
func Names() []string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	return names
}
