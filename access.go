package grapnel

import (
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// AccessRecord is a part of the configuration about passes, portals and terms of a tenant. Passes
// are not stored, so none can be deleted: a record says instead which of them are refused. A record
// has the content of its kind, and no other; see SeriesRecord, EndedRecord, PortalRecord,
// TermsRecord, TenantEndRecord and SenderRecord.
type AccessRecord struct {
	ID     string
	Tenant string // empty: all tenants together

	Series string         `json:",omitzero"`  // which passes of its tenant are valid: those that have it
	Ended  *EndedSessions `json:",omitempty"` // which sessions have ended
	Portal *Portal        `json:",omitempty"` // how the tenant's portal looks
	Terms  *Terms         `json:",omitempty"` // the operator's settings for the tenant
	End    *TenantEnd     `json:",omitempty"` // a tenant that is being deleted
	Sender *Sender        `json:",omitempty"` // how messages reach the contacts of customers
}

// TenantEnd says that a tenant is being deleted: its keys and passes are refused, nothing is created
// for it, and its endpoints count as disabled. Its record is the operator's, because it outlives the
// tenant's rows and the tenant's data key.
type TenantEnd struct {
	Tenant string
	Job    string // id of the erasure that deletes it
	At     time.Time
	By     By
	// Sealed rows of the tenant are deleted, and so is the stored data key: each node drops its own.
	KeyGone bool `json:",omitzero"`
}

// EndedSessions says that the sessions of a person, or of a portal link, have ended: those that
// began at that time or before; or, by the id of its pass, that one session was signed out.
type EndedSessions struct {
	Before time.Time
	Until  time.Time `json:",omitzero"` // the sessions would have ended by then; zero: unknown
}

// Portal is how the portal of a tenant looks, and where it may be framed.
type Portal struct {
	Name           string   `json:",omitzero"`  // in the place of Grapnel's
	Logo           string   `json:",omitzero"`  // a data: URL of a picture
	Accent         string   `json:",omitzero"`  // #rrggbb
	FrameAncestors []string `json:",omitempty"` // origins; empty: the portal is framed nowhere
	UpdatedAt      time.Time
}

// LongestSession bounds the life of sessions: the records of those that were ended are not kept for
// ever.
const LongestSession = 30 * 24 * time.Hour

// SeriesRecord gives the passes of a tenant a series. Without a tenant it is the era of the passes
// of all tenants.
func SeriesRecord(tenant, series string) AccessRecord {
	return AccessRecord{ID: SeriesID(tenant), Tenant: tenant, Series: series}
}

// EndedRecord ends sessions. whose is the subject of passes, the id of a link, or that of a pass.
func EndedRecord(tenant, whose string, is EndedSessions) AccessRecord {
	return AccessRecord{ID: EndedID(tenant, whose), Tenant: tenant, Ended: &is}
}

// PortalRecord says how the portal of a tenant looks.
func PortalRecord(tenant string, is Portal) AccessRecord {
	return AccessRecord{ID: PortalID(tenant), Tenant: tenant, Portal: &is}
}

// Looks is how the portal looks; the zero Portal if nothing was set.
func (r *AccessRecord) Looks() Portal {
	if r.Portal == nil {
		return Portal{}
	}
	return *r.Portal
}

// TermsRecord holds the terms of a tenant.
func TermsRecord(tenant string, is Terms) AccessRecord {
	return AccessRecord{ID: recordID("terms_", tenant), Tenant: tenant, Terms: &is}
}

// TenantEndRecord says that a tenant is being deleted.
func TenantEndRecord(is TenantEnd) AccessRecord {
	return AccessRecord{ID: recordID("tenant_end_", is.Tenant), End: &is}
}

// SenderID is the id of the only SenderRecord.
const SenderID = "sender"

// SenderRecord says how messages reach the contacts of customers.
func SenderRecord(is Sender) AccessRecord { return AccessRecord{ID: SenderID, Sender: &is} }

// PassesOfTenant is whose sessions all sessions and links of a tenant are. A record of the operator
// ends them when the tenant is deleted: a tenant of the same name takes none that are older.
func PassesOfTenant(tenant string) string { return "tenant/" + tenant }

// SessionKeyID is the id of the record by which nodes on one database notice that they have
// different session keys. Its series is from the key of the node that started last.
const SessionKeyID = "session_key"

// SeriesID is the id of the SeriesRecord of a tenant.
func SeriesID(tenant string) string { return recordID("series_", tenant) }

// EndedID is the id of an EndedRecord. Its hash names no person.
func EndedID(tenant, whose string) string { return recordID("ended_", tenant+"\x00"+whose) }

// PortalID is the id of the PortalRecord of a tenant.
func PortalID(tenant string) string { return recordID("portal_", tenant) }

func recordID(kind, of string) string {
	sum := sha256.Sum256([]byte(of))
	return kind + base64.RawURLEncoding.EncodeToString(sum[:16])
}
