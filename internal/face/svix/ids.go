package svix

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// Ids are computed both ways, and none is stored.
//
//	application  app_X is the tenant ten_X, which was registered without a uid; app_uid_T is any other
//	             tenant T, whose uid is T
//	endpoint     the endpoint's own id; its uid is a label
//	message      the event's own id, which receivers get as webhook-id; for a message with an eventId it
//	             is a hash of that, so that the store refuses the second one
//	attempt      atmpt_X is the attempt att_X
//	task         qtask_X is the replay rpl_X
const (
	appPrefix    = "app_"
	namedPrefix  = "app_uid_"
	tenantPrefix = "ten_"
	msgPrefix    = "msg_"
	epPrefix     = "ep_"
)

// appID is the id of a tenant's application, and its uid; empty: it has none.
func appID(tenant string) (id, uid string) {
	if tail, minted := strings.CutPrefix(tenant, tenantPrefix); minted && !strings.Contains(tail, "_") {
		return appPrefix + tail, ""
	}
	return namedPrefix + tenant, tenant
}

// tenantOf is the tenant that an id or a uid of an application means; empty: none has it.
func tenantOf(id string) string {
	tenant := id
	if named, is := strings.CutPrefix(id, namedPrefix); is {
		tenant = named
	} else if tail, is := strings.CutPrefix(id, appPrefix); is {
		tenant = tenantPrefix + tail
	}
	if !grapnel.BindsTenant(tenant) {
		return ""
	}
	return tenant
}

// uidFault says why a text cannot be the uid of an application; empty: it can.
func uidFault(uid string) string {
	switch {
	case !grapnel.BindsTenant(uid):
		return "must be 1 to 64 characters of [A-Za-z0-9_-]: it becomes the name of a tenant"
	case strings.HasPrefix(uid, appPrefix), strings.HasPrefix(uid, tenantPrefix):
		return "must not begin with app_ or ten_"
	}
	return ""
}

// validUID says whether a text can be the uid of an endpoint or the eventId of a message.
func validUID(uid string) bool { return uidForm.MatchString(uid) }

var uidForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,256}$`)

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// msgID is the id of the message with an eventId.
func msgID(eventID string) string {
	sum := sha256.Sum256([]byte("eventId " + eventID))
	return msgPrefix + idText.EncodeToString(sum[:16])
}

// swapped is an id with another prefix.
func swapped(id, from, to string) string {
	if tail, is := strings.CutPrefix(id, from); is {
		return to + tail
	}
	return id
}
