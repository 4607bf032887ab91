package upstream

// Role is what an engine is there for. Each role has its own engine, gate and
// numbers.
type Role string

const (
	RoleEmbed  Role = "embed"  // makes vectors
	RoleRerank Role = "rerank" // scores documents against a query
	RoleChat   Role = "chat"   // writes text
)

func (r Role) String() string { return string(r) }

// Roles lists all of them, in the order shown.
func Roles() []Role { return []Role{RoleEmbed, RoleRerank, RoleChat} }
