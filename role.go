package grapnel

import "slices"

// Role is a set of rights for people, who sign in with an issuer. API keys have scopes instead.
type Role string

// The roles, each with more rights than the one before.
const (
	RoleViewer    Role = "viewer"
	RoleOperator  Role = "operator"
	RoleDeveloper Role = "developer"
	RoleAdmin     Role = "admin"
)

// Rights are what a role may do. All code and texts about roles come from these rows.
type Rights struct {
	Role   Role
	Scopes []Scope // with ScopePayloadRead, it sees payloads
	About  string  // for people
}

// Roles lists the roles with their rights.
func Roles() []Rights {
	return []Rights{
		{RoleViewer, []Scope{ScopeRead}, "see everything but payloads"},
		{RoleOperator, []Scope{ScopeRead, ScopePayloadRead, ScopeReplay, ScopeOperate},
			"retry, skip, discard and note deliveries; replay; pause, resume, probe and test endpoints; pause and resume queues"},
		{RoleDeveloper, []Scope{ScopeRead, ScopePayloadRead, ScopeReplay, ScopeOperate, ScopeManage, ScopeSecretsReveal,
			ScopePublish, ScopeConsume},
			"change endpoints, queues, sources, policies and event types; publish and consume"},
		{RoleAdmin, []Scope{ScopeAdmin}, "everything, including API keys, tenants and nodes"},
	}
}

// RightsOf finds the rights of a role.
func RightsOf(r Role) (Rights, bool) {
	all := Roles()
	i := slices.IndexFunc(all, func(is Rights) bool { return is.Role == r })
	if i < 0 {
		return Rights{}, false
	}
	return all[i], true
}
