package svix

// The names under which an import stores objects of Svix, so that requests of its SDKs find them
// here.

// UIDLabel is the label of an endpoint's uid, and IDLabel that of the id which it had in Svix.
// Labels that begin with Reserved are not shown as metadata.
const (
	UIDLabel = uidLabel
	IDLabel  = ours + "id"
	Reserved = ours
)

// The labels of event types.
const (
	ArchivedLabel   = archivedLabel
	DeprecatedLabel = deprecatedLabel
	GroupLabel      = groupLabel
)

// TenantOf is the tenant of an application of Svix: its uid, by which requests find it from now on,
// or, if it has none that names a tenant, the tenant that its id means. Empty: neither does.
func TenantOf(id, uid string) string {
	if uid != "" && uidFault(uid) == "" {
		return uid
	}
	return tenantOf(id)
}

// Filter is the filter of an endpoint with channels; empty: it wants every message.
func Filter(channels []string) string { return filterOf(channels) }
