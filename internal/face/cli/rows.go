package cli

import "slices"

// The settings of endpoints, queues, sources, policies and keys, a row each. What the API has and
// is not here is named, with the reason, in TestSettingsCoverTheAPI.
var (
	EndpointSettings = slices.Concat([]Setting{
		{"url", "url", "text", "address that gets its events", "update"},
		{"target", "target/kind", "redis|nats|rabbitmq|kafka", "send messages to a broker of this kind, in the place of requests to a URL", ""},
		{"target-address", "target/address", "text", "where the broker is: kafka+ssl://b1.example.com:9093,b2.example.com:9093", ""},
		{"target-name", "target/name", "text", "topic, subject, stream or exchange", ""},
		{"target-username", "target/username", "text", "user of the broker", ""},
		{"target-password", "target/password", "content", "its password; '' removes it", ""},
		{"target-option", "target/options", "headers", "option of the kind, such as routing_key=invoices; may be repeated", ""},
		{"label", "labels", "headers", "mark of your own, such as team=billing; may be repeated", ""},
		{"rate", "rate_limit", "rate", "requests per second, and in one burst; none removes the limit", ""},
		{"max-concurrency", "max_concurrency", "int", "requests at once", ""},
		{"header", "headers", "headers", "sent with every request; may be repeated", ""},
		{"method", "method", "POST|PUT|PATCH", "method of the requests", ""},
		{"oauth2-token-url", "oauth2/token_url", "text", "send a bearer token that this token server gives (client credentials); '' removes it", ""},
		{"oauth2-client-id", "oauth2/client_id", "text", "name at the token server", ""},
		{"oauth2-client-secret", "oauth2/client_secret", "content", "secret that it shares with the token server", ""},
		{"oauth2-scope", "oauth2/scopes", "list", "scope of the tokens; may be repeated", ""},
		{"oauth2-audience", "oauth2/audience", "text", "audience of the tokens, if the token server asks for one", ""},
		{"client-cert", "tls/client_cert", "content", "client certificate in PEM, with those up to its authority; '' removes it", ""},
		{"client-key", "tls/client_key", "content", "its private key in PEM; '' removes it", ""},
		{"tls-ca", "tls/ca", "content", "authorities in PEM that are trusted instead of the system's; '' removes them", ""},
		{"proxy", "proxy", "content", "forward proxy, such as https://user:password@proxy.example.com:3128; '' removes it", ""},
		{"signature-headers", "signature_headers", "standard|svix", "svix: also svix-id, svix-timestamp and svix-signature", ""},
		{"format", "format", "standard|raw|cloudevents|batch", "form of the body; batch: an array of events", ""},
		{"trace", "trace", "switch", "send traceparent, so that the receiver continues the publisher's trace", ""},
		{"transform", "transform", "content", "jq expression over the standard body that gives the one to send; '' removes it", ""},
		{"secret", "secret", "content", "sign with this whsec_ secret; a new one if not given", "create"},
	}, matching, owner)

	QueueSettings = slices.Concat([]Setting{
		{"name", "name", "text", "new name", "update"},
		{"lease", "lease", "duration", "how long a consumer has for a message", ""},
		{"max-leased", "max_leased", "int", "leases that one consumer may hold at once", ""},
		{"quiet", "quiet", "switch", "no operational events, dead letters or statistics: only consumers notice the queue", ""},
	}, matching, owner)

	ChannelSettings = slices.Concat([]Setting{
		{"url", "url", "content", "URL as the service shows it, or slack://…, telegram://…, smtp://…", "update"},
		{"description", "description", "text", "for people", ""},
		{"severity", "severities", "list", "only alerts of this severity: page, warning, info; may be repeated", ""},
		{"rule", "rules", "list", "only alerts of this rule, such as endpoint_failing; may be repeated", ""},
		{"quiet-from", "quiet_hours/from", "text", "when the quiet hours begin, as in 22:00; then only alerts of the severity page are sent", ""},
		{"quiet-to", "quiet_hours/to", "text", "when they end, as in 07:00", ""},
		{"quiet-tz", "quiet_hours/tz", "text", "their time zone, such as Europe/Berlin", ""},
		{"digest", "digest", "duration", "gather alerts below the severity page for this long, and send them as one", ""},
		{"status", "status", "enabled|paused|disabled", "paused: alerts are held", "update"},
		{"tenant", "tenant", "text", "tenant; _operator: alerts about the server; '*': those and the alerts of all tenants", "create"},
	})

	ContactSettings = []Setting{
		{"mail", "mail", "text", "address of one mailbox; it gets a mail that asks to confirm it", "create"},
		{"url", "url", "content", "URL of a chat's webhook: Slack, Teams, Discord …", "create"},
		{"description", "description", "text", "for people", "create"},
		{"confirmed", "confirmed", "switch", "the address needs no confirmation; only with a key without a tenant", "create"},
		{"tenant", "tenant", "text", "tenant; the key's, else default", "create"},
	}

	SenderSettings = []Setting{
		{"url", "url", "content", "URL of the mail server, without recipients: smtp://user:password@host/?fromaddress=…; none: nothing is sent", ""},
		{"subject", "subject", "text", "template of subjects, with {subject}, {endpoint}, {stage}, {cause}, {since}, {failed}, {waiting}, {dead}, {tenant}", ""},
		{"text", "text", "content", "template of texts, with {text} and the same", ""},
		{"per-day", "per_day", "int", "messages that the contacts of one tenant get on one day (UTC); 0: 20", ""},
		{"scope", "scopes", "list", "right of the portal links in messages; may be repeated (default read, replay)", ""},
	}

	SourceSettings = slices.Concat([]Setting{
		{"name", "name", "text", "new name", "update"},
		{"status", "status", "enabled|paused", "paused: requests get 503, so that the provider keeps and repeats them", "update"},
		{"scheme", "verify/scheme", "text", "stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …", ""},
		{"secret", "verify/secret", "contents", "shared with the provider; may be repeated, the newest first; if the provider shows it later, none", ""},
		{"header", "verify/header", "text", "header of the signature or key", ""},
		{"algorithm", "verify/algorithm", "sha1|sha256|sha512", "hash of the signature", ""},
		{"encoding", "verify/encoding", "hex|base64", "encoding of the signature", ""},
		{"prefix", "verify/prefix", "text", "text before the signature, such as sha256=", ""},
		{"signed", "verify/signed", "text", "the signed text: {body}, {timestamp}, {id}, {url} and the text between them", ""},
		{"timestamp-header", "verify/timestamp_header", "text", "header of the timestamp", ""},
		{"id-header", "verify/id_header", "text", "header of the event's id", ""},
		{"type-header", "verify/type_header", "text", "header of the event's type", ""},
		{"tolerance", "verify/tolerance", "duration", "how old a signed timestamp may be, such as 5m", ""},
		{"username", "verify/username", "text", "user name, for basic", ""},
		{"outbox", "outbox/dsn", "content", "read events from the outbox of this PostgreSQL (a DSN) instead of taking requests", ""},
		{"broker", "broker/kind", "redis|nats|rabbitmq|kafka|sqs|pubsub", "read events from a broker of this kind instead of taking requests", ""},
		{"broker-address", "broker/address", "text", "where the broker is: tls://nats.example.com:4222", ""},
		{"broker-name", "broker/name", "text", "stream, queue, topic or subscription to read", ""},
		{"broker-username", "broker/username", "text", "user of the broker", ""},
		{"broker-password", "broker/password", "content", "its password; '' removes it", ""},
		{"broker-option", "broker/options", "headers", "option of the kind, such as group=billing; may be repeated", ""},
		{"client-cert", "tls/client_cert", "content", "client certificate in PEM for the broker, with those up to its authority; '' removes it", ""},
		{"client-key", "tls/client_key", "content", "its private key in PEM; '' removes it", ""},
		{"tls-ca", "tls/ca", "content", "authorities of the broker in PEM, instead of the system's; '' removes them", ""},
		{"description", "description", "text", "for people", ""},
		{"on-unverified", "on_unverified", "reject|quarantine", "reject: 401, nothing is stored; quarantine: stored for people to see", ""},
		{"type", "type", "text", "CEL expression for the event's type; none: the provider's own field", ""},
		{"event-key", "key", "text", "CEL expression for the ordering key; none: the provider's own field", ""},
		{"event-id", "event_id", "text", "CEL expression over the body (of a broker: and headers) for the event's id, such as event.data.id; none: the provider's own field", ""},
		{"public-url", "public_url", "text", "URL that the provider calls, for signatures that cover it; none: below the server's own", ""},
		{"dedupe", "dedupe/by", "list or none", "compare requests by the first they have of event_id, delivery_id, content", ""},
		{"dedupe-window", "dedupe/window", "duration", "how long a request is remembered, such as 192h", ""},
		{"ignore", "dedupe/ignore", "list", "paths in JSON bodies that content leaves out, such as $.sent_at", ""},
		{"rate", "rate_limit", "rate", "requests per second, and in one burst; none removes the limit", ""},
		{"max-body", "max_body", "size", "largest body of a request", ""},
	}, owner)

	PolicySettings = slices.Concat([]Setting{
		{"name", "name", "text", "name; the document's own if not given", ""},
	}, owner)

	EventTypeSettings = slices.Concat([]Setting{
		{"description", "description", "text", "for people", ""},
		{"label", "labels", "headers", "mark of your own, such as team=billing; may be repeated", ""},
		{"check", "check", "off|refuse", "refuse: events whose data do not satisfy the schema are refused", ""},
		{"retain", "retain", "all|none", "none: what an event contains is erased once it is delivered", ""},
		{"schema", "schema", "json", "JSON Schema 2020-12 of the data: version 1", "create"},
		{"example", "example", "json", "data that satisfy the schema", "create"},
		{"note", "note", "text", "changes of the version, for people", "create"},
	}, owner)

	TenantSettings = []Setting{
		{"name", "name", "text", "name for people", ""},
		{"label", "labels", "headers", "mark of your own, such as plan=gold; may be repeated", ""},
		{"max-publish-rate", "publish_rate", "rate", "events per second that it may publish, and at once; none: the server's rate", "update"},
		{"max-events-per-day", "max_events_per_day", "int", "events that it may publish on one day (UTC); 0: the server's limit", "update"},
		{"max-pending", "max_pending", "int", "pending deliveries that it may have; 0: the server's limit", "update"},
		{"consent", "consent", "off|required", "required: a new address of an endpoint gets nothing until it has answered a challenge; the server's rule if not given", "update"},
		{"proxy", "proxy", "content", "forward proxy of its endpoints that name none, and of its channels but for mails, such as http://user:password@proxy.example.com:3128; '' removes it", "update"},
	}

	IncidentSettings = []Setting{
		{"text", "text", "text", "first message to the readers; it is public", ""},
		{"impact", "impact", "none|degraded|outage", "how bad it is; degraded if not given", ""},
		{"component", "components", "list", "part that it is about: accepting, delivering, receiving, dashboard; may be repeated", ""},
		{"status", "status", "investigating|identified|monitoring", "state of the work; investigating if not given", "open"},
		{"from", "starts_at", "past", "when it began: 2026-01-31T12:00:00Z, or 20m for twenty minutes ago; now if not given", "open"},
		{"from", "starts_at", "time", "when it begins", "plan"},
		{"to", "ends_at", "time", "when it ends", "plan"},
	}

	IncidentUpdateSettings = []Setting{
		{"text", "text", "text", "message to the readers; it is public", "update"},
		{"text", "text", "text", "last message to the readers; it is public", "resolve"},
		{"status", "status", "investigating|identified|monitoring|resolved", "state of the work; as before if not given", "update"},
		{"to", "ends_at", "time", "another end of planned maintenance", "update"},
	}

	BacktestSettings = []Setting{
		{"for", "for", "text", "how far to look back: 1h to 62d; 28d if not given", ""},
		{"threshold", "threshold", "number", "instead of the threshold in force", ""},
	}

	PortalLinkSettings = []Setting{
		{"scope", "scopes", "list", "read, replay, endpoints:write, secrets:reveal, payload:read, alerts:read (default read)", ""},
		{"endpoint", "endpoints", "list", "only this endpoint; repeat for several (default all)", ""},
		{"expires-in", "expires_in", "text", "how long the link can be opened (default 15m)", ""},
		{"session", "session", "text", "how long the portal stays open (default 1h)", ""},
		{"subject", "subject", "text", "who opens it, for the audit", ""},
		{"theme", "theme", "text", "colours: auto, light or dark", ""},
		{"locale", "locale", "text", "how dates and times are written, such as de-DE", ""},
		{"return-url", "return_url", "text", "where the portal's link back leads", ""},
	}

	ErasureSettings = slices.Concat([]Setting{
		{"tenant", "tenant", "text", "whose events", ""},
		{"event-key", "key", "text", "events with this ordering key", ""},
		{"metadata", "metadata", "headers", "events with all of these members in their metadata: name=value", ""},
		{"filter", "filter", "text", "events that this CEL expression is true for, as in endpoints", ""},
	}, Reason)

	KeySettings = []Setting{
		{"name", "name", "text", "purpose of the key", ""},
		{"scope", "scopes", "list", "what it may do: publish, read, manage, replay, consume, admin", ""},
		{"tenant", "tenant", "limit", "the only tenant that it sees; all if not given", "create"},
		{"expires", "expires_at", "end", "when it ends: 90d, 2027-01-31, a time, or never; a year from now if not given", ""},
		{"from", "from", "list", "ranges of addresses that may use it, such as 10.0.0.0/8; all if not given", ""},
	}
)

// matching are the settings that endpoints and queues have in common.
var matching = []Setting{
	{"description", "description", "text", "for people", ""},
	{"types", "event_types", "list", "event types to deliver; * stands for any part of one; none: all", ""},
	{"filter", "filter", "text", "CEL expression over event, such as event.data.amount > 100; '' removes it", ""},
	{"source", "source", "text", "id of a source: deliver only events that came in through it; '' removes it", ""},
	{"policy", "policy", "policy", "when to attempt: a policy's name, or a policy; if not given default, with three attempts in ten minutes after 400, 413, 415 or 422; for queues queue", ""},
	{"ordering", "ordering", "key|none", "deliver the events of one key in order, or all at once", ""},
}

// Reason is why something is done.
var Reason = []Setting{{"reason", "reason", "text", "why, for the audit", ""}}

// owner is set when an object is created, and stays.
var owner = []Setting{{"tenant", "tenant", "text", "tenant that owns it", "create"}}

// The flags of list and of get, and the parameters of the query that they set.
var (
	OnlyTenant = []Setting{{"tenant", "tenant", "text", "only this tenant", ""}}

	OfTenant = []Setting{{"tenant", "tenant", "text", "tenant that owns the event, if several have one with this id", ""}}

	TypeOfTenant = []Setting{{"tenant", "tenant", "text", "tenant that owns it, if several have one with this name", ""}}

	EndpointFilters = slices.Concat([]Setting{
		{"label", "label", "text", "only endpoints with this label: NAME=VALUE, or NAME for any value", ""},
	}, OnlyTenant)

	EventFilters = slices.Concat([]Setting{
		{"type", "type", "text", "only this event type; * stands for any part of it", ""},
		{"event-key", "key", "text", "only this ordering key", ""},
		{"source", "source", "text", "only events that came in through this source", ""},
		{"since", "from", "past", "only events accepted at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago", ""},
		{"until", "to", "time", "only events accepted before this time", ""},
	}, OnlyTenant)

	ReplayFilters = slices.Concat([]Setting{
		{"endpoint", "endpoint", "text", "only this endpoint", ""},
		{"active", "active", "switch", "only running and paused replays", ""},
	}, OnlyTenant)

	AlertFilters = slices.Concat([]Setting{
		{"state", "state", "firing|acknowledged|resolved", "only alerts in this state", ""},
		{"rule", "rule", "text", "only alerts of this rule", ""},
		{"endpoint", "endpoint", "text", "only alerts about this endpoint, queue or channel", ""},
	}, OnlyTenant)

	IssueFilters = slices.Concat([]Setting{
		{"state", "state", "open|acknowledged|muted|resolved", "only these states, with commas between them", ""},
		{"endpoint", "endpoint", "text", "only this endpoint", ""},
	}, OnlyTenant)

	IssueSettings = []Setting{
		{"owner", "owner", "text", "a person or team that takes care of it; '' removes it", ""},
		{"note", "note", "text", "for the next person who looks at it; '' for none", ""},
	}

	InboxFilters = slices.Concat([]Setting{
		{"source", "source", "text", "only this source", ""},
		{"outcome", "outcome", "accepted|unverified|conflict|refused", "only this outcome; unverified: in quarantine, conflict: same id, other body, refused: of an outbox or a broker", ""},
		{"since", "from", "past", "only requests received at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago", ""},
		{"until", "to", "time", "only requests received before this time", ""},
	}, OnlyTenant)

	RuleOfTenant = []Setting{{"tenant", "tenant", "text", "rules of this tenant; without it those of the operator, for keys that are bound to no tenant", ""}}

	AuditFilters = slices.Concat([]Setting{
		{"endpoint", "endpoint", "text", "only this endpoint and its deliveries", ""},
		{"delivery", "delivery", "text", "only this delivery", ""},
	}, OnlyTenant)
)
