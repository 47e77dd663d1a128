"""Written by make sdk from the OpenAPI document whose SHA-256 is c349341932eb53e2f1579cf62d1a1d46d4ccf3b9b816b9f98306258c108f8cc3."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class AddEventTypeVersionQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


Ahead = TypedDict("Ahead", {
    "attempts": "int",
    "from": "str",
    "until": "str",
})


class Alert(TypedDict):
    acknowledged_at: str | None
    acknowledged_by: str | None
    "the id of an API key or a person; alert-link: a person with the link of a message"
    id: str
    messages: list[AlertMessage]
    "messages about it, the oldest first; of more than 16 the first and the latest. In lists the latest only"
    resolved_at: str | None
    rule: str
    "name of its rule"
    severity: Literal['page', 'warning', 'info']
    since: str
    state: Literal['firing', 'acknowledged', 'resolved']
    "acknowledged: it still holds, and is not repeated"
    subject: AlertSubject
    tenant: str | None
    "null: it concerns the operator"
    text: str
    "the measurement when it fired"
    threshold: float
    "in force when it fired"
    title: str
    value: float
    "as measured when it fired, in the unit of its rule"


class AlertDelivery(TypedDict):
    delivery_id: str
    endpoint_id: str
    endpoint_name: str | None
    "null: it is deleted"
    status: Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']


class AlertLink(TypedDict):
    alert_id: str
    severity: Literal['page', 'warning', 'info']
    since: str
    state: Literal['firing', 'acknowledged', 'resolved']
    title: str


class AlertMessage(TypedDict):
    at: str
    deliveries: list[AlertDelivery]
    "empty: the digest is held until its time, or was not needed, or they are purged"
    event_id: str
    "of a digest that is held, the id that its event will have"
    held: AlertMessageHeld | None
    "of a digest that waits for its time"
    transition: Literal['fired', 'resolved', 'repeated', 'worse']
    "worse: its severity has risen"


class AlertMessageHeld(TypedDict):
    endpoint_id: str
    endpoint_name: str | None
    "null: it is deleted"
    until: str


class AlertRule(TypedDict):
    about: str
    "its measurement"
    backtest: bool
    "stored history has its facts"
    below: bool
    "it fires at values as low as the threshold; false: as high"
    changed: list[Literal['enabled', 'threshold', 'severity']]
    "fields that were set for this tenant, or by the operator"
    concerns: list[Literal['tenants', 'operator']]
    default_severity: Literal['page', 'warning', 'info']
    default_threshold: float
    enabled: bool
    name: str
    severity: Literal['page', 'warning', 'info']
    threshold: float
    title: str
    unit: Literal['seconds', 'percent', 'percentage points', 'times the usual', 'days', 'number', 'yes or no']


class AlertRulePatch(TypedDict):
    enabled: NotRequired[bool | None]
    "whether it is evaluated; when it is switched off its alerts are resolved"
    severity: NotRequired[Literal['page', 'warning', 'info', None]]
    "page: sent in quiet hours too, and repeated until it is acknowledged"
    threshold: NotRequired[float | None]
    "in the rule's unit"


class AlertSubject(TypedDict):
    id: str
    "empty: the server"
    kind: str
    "endpoint, queue, source, tenant, key, promise or server"
    name: str


Anything = dict[str, Any]


class Attempt(TypedDict):
    decision: Literal['deliver', 'retry', 'fail', 'throttle', 'disable']
    duration: str
    erased: NotRequired[bool]
    "error, headers, body and peer were erased, with the data key that had sealed them"
    error: str | None
    error_class: str
    id: str
    next_attempt_at: str | None
    number: int
    payload_hidden: NotRequired[bool]
    "the caller may not see values of headers and bodies"
    peer: NotRequired[Peer]
    "the receiver's end of the connection; absent: none was made"
    phases: Phases
    policy_revision: int
    "the endpoint's revision whose policy decided"
    request_headers: dict[str, str] | None
    "the headers of the request; values of the endpoint's own headers, but for lone names in braces, are [redacted]; null: no request was sent"
    response_body: str
    "the first 16 KiB, as text"
    response_body_base64: NotRequired[str]
    "the bytes themselves, when they are not text"
    response_headers: dict[str, str]
    scheduled_for: str
    started_at: str
    status_code: int | None
    "null: there was no response"
    trigger: Literal['schedule', 'manual', 'replay', 'probe', 'test']


class AttemptCount(TypedDict):
    attempts: int
    "16: that many or more"
    deliveries: int


class Audit(TypedDict):
    actor: str
    "id of an API key; person/NAME: a person who has signed in; portal/NAME: a portal link; alert-link: the link of an alert's message; grapnel: the server itself"
    actor_name: NotRequired[str]
    "name of the API key that acted, for callers with the scope admin; absent: it is no key, or is deleted"
    at: str
    delivery_id: str | None
    endpoint_id: str | None
    "id of the endpoint, queue, source, key, policy or event type"
    name: NotRequired[str]
    "name of that endpoint, queue, source, key, policy or event type; absent: unknown. In an export only deletions have it"
    number: int | None
    "number of the entry, rising; null for keys that are bound to a tenant, because it counts the entries of all tenants"
    reason: str | None
    "the actor's own words; of a key its name and scopes, of a policy or event type its name"
    tenant: str
    "tenant that owns the subject"
    verb: Literal['create', 'change', 'pause', 'resume', 'disable', 'enable', 'delete', 'rotate_secret', 'reveal_secret', 'test', 'probe', 'retry', 'skip', 'note', 'discard', 'empty', 'acknowledge', 'mute', 'resolve', 'reopen', 'replay', 'pause_replay', 'resume_replay', 'cancel_replay', 'stop_replay', 'erase', 'revoke']


class Backtest(TypedDict):
    fired: int
    "how often; 0 if not known"
    known: bool
    "false: no history of its facts is stored"
    rule: str
    sentence: str
    times: list[str]
    "the first 1,000; for rules about totals, the beginnings of their hours"


class BacktestAlertRuleQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none; without it, the operator's own rules, which hold for tenants that have not changed them"


class Bucket(TypedDict):
    at: str
    "start of the bucket"
    attempted: int
    "finished deliveries that had at least one attempt"
    attempts: int
    delivered: int
    discarded: int
    dropped: int
    failed: int
    "became dead letters"
    failed_attempts: int
    "attempts that failed"
    first_attempt_success: int
    "first attempts that succeeded"
    first_attempts: int
    "first attempts that were made, whether or not their delivery is finished"
    latency: Latency
    "latency of answered attempts; exact to a fifth"
    retried: int
    "finished deliveries with more than one attempt"
    skipped: int
    tried_again: int
    "attempts after which the delivery stayed pending"


class ByStatus(TypedDict):
    delivered: int
    discarded: int
    dropped: int
    failed: int
    skipped: int


Cause = TypedDict("Cause", {
    "bytes": "NotRequired[int]",
    "evidence": "float",
    "failures": "int",
    "filter": "NotRequired[str]",
    "from": "NotRequired[str]",
    "kind": "Literal['secret', 'certificate', 'address', 'endpoint', 'settings', 'type', 'field', 'size', 'time_limit', 'outage', 'since']",
    "name": "NotRequired[str]",
    "sentence": "str",
    "successes": "int",
    "to": "NotRequired[str]",
    "value": "NotRequired[str]",
})


Causes = TypedDict("Causes", {
    "causes": "list[Cause]",
    "endpoint_id": "str",
    "failures": "int",
    "from": "str | None",
    "groups": "list[FailureGroup]",
    "more": "bool",
    "sentence": "str",
    "successes": "int",
})


class Channel(TypedDict):
    created_at: str
    description: str
    digest: str
    "alerts below the severity page are gathered for this long and sent as one; 0s: each is sent at once"
    disabled_at: str | None
    disabled_reason: str | None
    health: Health
    id: str
    quiet_hours: ChannelQuietHours | None
    "a part of every day in which only alerts of the severity page are sent; none: no such part"
    revision: int
    "grows with every change"
    rules: list[str]
    "only alerts of these rules, such as endpoint_failing; none: every rule"
    service: str
    "the service that the URL names: slack, telegram, smtp …"
    severities: list[Literal['page', 'warning', 'info']]
    "only alerts of these: page, warning, info; none: every severity"
    status: Literal['enabled', 'paused', 'disabled']
    "paused: alerts are held; enabled if not given"
    tenant: str
    "the key's tenant, else default; _operator: alerts about the server itself; *: alerts of all tenants, and about the server; both for keys without a tenant"
    updated_at: str
    url: str
    "the URL of a webhook as the service shows it (https://hooks.slack.com/services/…), or of a service as shoutrrr writes it: slack://…, telegram://…, smtp://…; it holds credentials, so answers show it masked"


class ChannelMessage(TypedDict):
    body: str
    "made again from the event, by the channel's URL of now; credentials are [redacted]"
    content_type: str
    method: str
    "MAIL: it is a mail, and the body its text"
    url: str


class ChannelPatch(TypedDict):
    description: NotRequired[str | None]
    digest: NotRequired[str | None]
    "alerts below the severity page are gathered for this long and sent as one; 0s: each is sent at once"
    quiet_hours: NotRequired[QuietHoursPatch | None]
    "a part of every day in which only alerts of the severity page are sent; none: no such part"
    rules: NotRequired[list[str] | None]
    "only alerts of these rules, such as endpoint_failing; none: every rule"
    severities: NotRequired[list[Literal['page', 'warning', 'info']] | None]
    "only alerts of these: page, warning, info; none: every severity"
    status: NotRequired[Literal['enabled', 'paused', 'disabled', None]]
    "paused: alerts are held; enabled if not given"
    url: NotRequired[str]
    "the URL of a webhook as the service shows it (https://hooks.slack.com/services/…), or of a service as shoutrrr writes it: slack://…, telegram://…, smtp://…; it holds credentials, so answers show it masked"


ChannelQuietHours = TypedDict("ChannelQuietHours", {
    "from": "str",
    "to": "str",
    "tz": "str",
})


class Check(TypedDict):
    passed: bool
    text: str


class Cluster(TypedDict):
    node: str
    "id of the node that answers"
    nodes: list[Member]
    "nodes seen within the last hour"
    shards: int
    "number of shards; 0: the store is not shared"
    shared: bool
    "false: no other node uses the store"
    unowned: int
    "shards without an owner: no attempts are made for their endpoints until a node takes them"
    unowned_shards: list[int]
    "which"


CompareEventTypeVersionsQuery = TypedDict("CompareEventTypeVersionsQuery", {
    "from": "NotRequired[int]",
    "to": "NotRequired[int]",
    "tenant": "NotRequired[str]",
})


class Comparison(TypedDict):
    attempts: int
    attempts_per_event: float
    dead_letters: int
    discarded: int
    drained_after: str
    extra_wait: Wait


class Consumer(TypedDict):
    leased: int
    name: str
    seen_at: str


class Contact(TypedDict):
    confirmed: bool
    "false: it gets no messages"
    confirmed_at: str | None
    created_at: str
    description: str
    health: Health
    id: str
    mail: str | None
    service: str
    "smtp for a mail address, else the chat: slack, teams, discord …"
    tenant: str
    url: str | None
    "masked"


class ContactLink(TypedDict):
    mail: str
    "the address that is confirmed"


class DeadLetterCount(TypedDict):
    all: int
    by_endpoint: list[EndpointDeadLetters]
    "those with the most, at most 50"
    endpoints: int
    "endpoints that have any"
    more: bool
    "not all were counted: the number is a lower bound"


class Dedupe(TypedDict):
    by: list[str]
    ignore: list[str]
    window: str


class DedupePatch(TypedDict):
    by: NotRequired[list[Literal['event_id', 'delivery_id', 'content']] | None]
    "event_id, delivery_id, content: the first that a request has counts; an empty list: no dedupe; all three if not given"
    ignore: NotRequired[list[str] | None]
    "paths of JSON bodies that content leaves out, such as $.sent_at"
    window: NotRequired[str | None]
    "counted from the first arrival; 192h if not given; not shorter than the provider's retries"


class DedupeSettings(TypedDict):
    by: NotRequired[list[Literal['event_id', 'delivery_id', 'content']] | None]
    "event_id, delivery_id, content: the first that a request has counts; an empty list: no dedupe; all three if not given"
    ignore: NotRequired[list[str] | None]
    "paths of JSON bodies that content leaves out, such as $.sent_at"
    window: NotRequired[str | None]
    "counted from the first arrival; 192h if not given; not shorter than the provider's retries"


class DeleteChannelQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class DeleteContactQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class DeleteEndpointQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class DeleteEventTypeQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class DeleteQueueQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class DeleteSourceQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class DeleteTenantQuery(TypedDict):
    reason: NotRequired[str]
    "why; kept in the audit, so leave names of people out; at most 500 characters"


class Delivery(TypedDict):
    attempts: NotRequired[list[Attempt]]
    "only for a single delivery"
    attempts_made: int
    created_at: str
    days_left: int | None
    "days until purge_at, rounded up: 1 in the last 24 hours; 0: it may be purged now"
    discard_reason: str | None
    discarded_at: str | None
    "when a person discarded it: it is no dead letter any more since then"
    endpoint_id: str
    endpoint_name: str | None
    "name of the endpoint, queue or channel: its description, else its URL without scheme and query; null: it is deleted"
    event_id: str
    finished_at: str | None
    id: str
    key: str | None
    last: DeliveryLast | None
    "the last attempt; null: none was made"
    message: NotRequired[ChannelMessage]
    "only for a single delivery to a channel: the request that its service gets"
    next_attempt_at: str | None
    note: str | None
    planned: NotRequired[list[Planned]]
    "the attempts that follow if each fails; only when one delivery is asked for"
    purge_at: str | None
    "when it is purged; null: it is not finished, or is never purged"
    reason: str
    "one sentence that explains the state"
    reason_code: str | None
    "why it failed: exhausted, permanent, rejected, expired, endpoint_gone, damaged; test: it was a test, which counts nowhere; later: it is pending until the time that its publisher asked for"
    replay_of: str | None
    "the delivery that this one repeats"
    replay_result: str | None
    "status of the new delivery; pending: not finished"
    replayed_as: str | None
    "the new delivery; null: none"
    replayed_at: str | None
    "when it was last replayed or retried"
    replayed_by: str | None
    "the replay; null: retried by hand"
    sequence: int | None
    "position in its lane; null: it has no lane, or joined it a moment ago"
    status: Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']
    tenant: str
    type: str


class DeliveryLast(TypedDict):
    duration: str
    error_class: str
    status_code: int | None
    "null: there was no response"


class DeliveryPatch(TypedDict):
    note: NotRequired[str | None]
    "for the next person who looks at it"


class Duplicate(TypedDict):
    event_id: str
    first_at: str
    "when it came again for the first time"
    last_at: str
    source: str | None
    "that received it the last time; null: it was published through the API"
    tenant: str
    times: int
    "how often it came again; the first time is not counted"


class EndSessionsQuery(TypedDict):
    subject: NotRequired[str]
    "the person as the audit names it: person/ADDRESS (SUBJECT)"
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class Endpoint(TypedDict):
    client_cert_ends: str | None
    "the end of the client certificate; null: there is none"
    consent: EndpointConsent | None
    "of its address, where the tenant requires that; null: the address was asked for none"
    created_at: str
    description: str
    disabled_at: str | None
    disabled_reason: str | None
    event_types: list[str]
    "patterns in which a whole segment may be *; none: every type"
    filter: str | None
    "a CEL expression over event (type, key, data, metadata)"
    format: Literal['standard', 'raw', 'cloudevents', 'batch', None]
    "form of the request; that of the policy's preset if not given, else standard"
    headers: dict[str, str]
    "sent with every delivery; {event.id}, {event.type}, {event.key}, {event.timestamp}, {delivery.id}, {attempt} and {retry} stand for their values, {{ and }} for braces; values are [redacted] for a key without the scope manage"
    health: Health
    id: str
    jwks_url: str | None
    "where receivers get the public keys of the secrets, as a JWK Set: a path on this server, or a complete URL with --public-url; null: no secret is an Ed25519 key"
    labels: dict[str, str]
    "marks of your own, such as {\"team\":\"billing\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes; lists can be filtered by one, and no delivery depends on them"
    max_concurrency: int
    "requests at once; 32 if not given"
    method: Literal['POST', 'PUT', 'PATCH']
    "of the requests; POST if not given"
    oauth2: EndpointOauth2 | None
    "client credentials (RFC 6749): requests carry a bearer token of this token server; none: they carry none"
    ordering: Literal['key', 'none', None]
    "none: events of one key do not wait for each other; that of the policy's preset if not given, else key"
    policy: str | Policy
    "the name of a preset or of a policy of the tenant, or a policy"
    policy_changes: list[str]
    "fields of its own policy that differ from the one that policy.preset names; a named policy has none"
    preset_shape: EndpointPresetShape | None
    "what the policy's preset says about requests and the endpoint does not; null: nothing"
    proxy: str | None
    "URL of a forward proxy that connections go through (CONNECT), with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"
    rate_limit: EndpointRateLimit | None
    "none: no limit"
    revision: int
    "grows with every change"
    secret: NotRequired[str]
    "whsec_… or whsk_…; none: one is made. Shown in the answer that makes it, and never again"
    secrets: list[Secret]
    "secrets that sign now, newest first"
    signature_headers: Literal['standard', 'svix']
    "svix: svix-id, svix-timestamp and svix-signature besides webhook-id and so on; standard if not given"
    source: str | None
    "the id of a source: only events that it received; none: events of any origin"
    status: Literal['enabled', 'paused', 'disabled']
    "paused: deliveries are held; enabled if not given"
    target: EndpointTarget | None
    "a broker that gets deliveries as messages, in the place of a URL; none: the URL gets them"
    tenant: str
    "the key's tenant, else default"
    tls: EndpointTls | None
    "a client certificate, and the authorities that are trusted; none: no certificate, and those of the system"
    trace: bool
    "requests have the header traceparent, so that the receiver continues the publisher's trace; false if not given. tracestate and baggage are never sent"
    transform: str | None
    "a jq expression over the standard body (id, type, timestamp, data) whose one result is the body to send, as JSON; none: the preset's, or the body of the format"
    updated_at: str
    url: str
    "URL that gets deliveries as requests; required unless target is given, whose address answers have here. Values of its query are [redacted] for a caller who may not change the endpoint"


class EndpointConsent(TypedDict):
    asked: int
    "challenges that were sent"
    asked_at: str | None
    "the last of them; null: none yet"
    cause: str | None
    "why the last challenge brought no consent; null: it did, or has no result yet"
    given_at: str | None
    "when the address consented; null: it has not"
    next_at: str | None
    "the next challenge; null: none is sent unless a person asks"
    since: str
    "when the endpoint got the address"


class EndpointDeadLetters(TypedDict):
    count: int
    endpoint_id: str
    more: bool
    "a lower bound"


class EndpointOauth2(TypedDict):
    audience: NotRequired[str]
    "a parameter that some token servers want"
    client_id: str
    client_secret: str
    "[redacted] in answers; an update that moves token_url gives it again"
    scopes: NotRequired[list[str]]
    token_url: str
    "address of the token server; it must be as public as the endpoint's own. An update that sets it to null removes the client"


class EndpointPatch(TypedDict):
    description: NotRequired[str | None]
    event_types: NotRequired[list[str] | None]
    "patterns in which a whole segment may be *; none: every type"
    filter: NotRequired[str | None]
    "a CEL expression over event (type, key, data, metadata)"
    format: NotRequired[Literal['standard', 'raw', 'cloudevents', 'batch', None]]
    "form of the request; that of the policy's preset if not given, else standard"
    headers: NotRequired[dict[str, str | None] | None]
    "sent with every delivery; {event.id}, {event.type}, {event.key}, {event.timestamp}, {delivery.id}, {attempt} and {retry} stand for their values, {{ and }} for braces; values are [redacted] for a key without the scope manage"
    labels: NotRequired[dict[str, str | None] | None]
    "marks of your own, such as {\"team\":\"billing\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes; lists can be filtered by one, and no delivery depends on them"
    max_concurrency: NotRequired[int | None]
    "requests at once; 32 if not given"
    method: NotRequired[Literal['POST', 'PUT', 'PATCH', None]]
    "of the requests; POST if not given"
    oauth2: NotRequired[OAuth2Patch | None]
    "client credentials (RFC 6749): requests carry a bearer token of this token server; none: they carry none"
    ordering: NotRequired[Literal['key', 'none', None]]
    "none: events of one key do not wait for each other; that of the policy's preset if not given, else key"
    policy: NotRequired[str | InlinePolicyPatch | None]
    "the name of a policy, or a policy, whose preset names its base; none: default"
    proxy: NotRequired[str | None]
    "URL of a forward proxy that connections go through (CONNECT), with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"
    rate_limit: NotRequired[RateLimitPatch | None]
    "none: no limit"
    signature_headers: NotRequired[Literal['standard', 'svix', None]]
    "svix: svix-id, svix-timestamp and svix-signature besides webhook-id and so on; standard if not given"
    source: NotRequired[str | None]
    "the id of a source: only events that it received; none: events of any origin"
    status: NotRequired[Literal['enabled', 'paused', 'disabled', None]]
    "paused: deliveries are held; enabled if not given"
    target: NotRequired[TargetPatch | None]
    "a broker that gets deliveries as messages, in the place of a URL; none: the URL gets them"
    tls: NotRequired[TLSPatch | None]
    "a client certificate, and the authorities that are trusted; none: no certificate, and those of the system"
    trace: NotRequired[bool | None]
    "requests have the header traceparent, so that the receiver continues the publisher's trace; false if not given. tracestate and baggage are never sent"
    transform: NotRequired[str | None]
    "a jq expression over the standard body (id, type, timestamp, data) whose one result is the body to send, as JSON; none: the preset's, or the body of the format"
    url: NotRequired[str | None]
    "URL that gets deliveries as requests; required unless target is given, whose address answers have here. Values of its query are [redacted] for a caller who may not change the endpoint"


class EndpointPresetShape(TypedDict):
    format: str | None
    headers: dict[str, str]
    ordering: str | None
    transform: str | None


class EndpointRateLimit(TypedDict):
    burst: int
    "one second's worth if not given"
    per_second: float


class EndpointStates(TypedDict):
    all: int
    degraded: int
    disabled: int
    failing: int
    healthy: int
    open: int
    paused: int
    recovering: int
    throttled: int
    unknown: int


EndpointStatsQuery = TypedDict("EndpointStatsQuery", {
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "bucket": "NotRequired[Literal['minute', 'hour', 'day']]",
})


class EndpointTarget(TypedDict):
    address: NotRequired[str]
    "where the broker is, without credentials: redis:// or rediss://, nats:// or tls://, amqp:// or amqps://, kafka:// or kafka+ssl://, http:// or https:// for the others, then hosts with their ports. The second form is the one over TLS, which uses tls. It must be as public as an endpoint's URL"
    kind: Literal['redis', 'nats', 'rabbitmq', 'kafka', 'sqs', 'sns', 's3', 'pubsub']
    "redis: an entry of a stream; nats: a message of JetStream; rabbitmq: a message to an exchange; kafka: a record of a topic; sqs, sns: a message to a queue or topic of AWS; s3: an object, or a file of several; pubsub: a message to a topic of Google. A source reads all but sns and s3"
    name: NotRequired[str]
    "the stream's key, subject, exchange, topic, queue or object's key; a subject and an object's key may have placeholders as in headers. Of a source: the stream's key, stream, queue, topic or subscription"
    options: NotRequired[dict[str, str]]
    "of the kind: max_length of redis, stream of nats, routing_key of rabbitmq, sasl of kafka (plain, scram-sha-256, scram-sha-512), region of sqs, sns and s3, batch and batch_wait of s3. Of a source: consumer and subject of nats, group of redis, group and sasl of kafka, region of sqs"
    password: NotRequired[str]
    "or token, without a username; [redacted] in answers. An update that moves address gives it again"
    username: NotRequired[str]


class EndpointTls(TypedDict):
    ca: NotRequired[str]
    "certificates of the authorities that are trusted instead of the system's"
    client_cert: NotRequired[str]
    "the client certificate, and behind it those between it and its authority"
    client_key: NotRequired[str]
    "its private key, not encrypted; [redacted] in answers"


class Erasure(TypedDict):
    counts: dict[str, int]
    "erased so far, by kind; a part that a crash interrupted may be missing"
    finished_at: str | None
    id: str
    reason: str
    remains: list[str]
    "once it is done: where erased bytes may still be, such as in backups, and what removes them there"
    selected_by: Literal['key', 'metadata', 'filter', 'tenant']
    "tenant: the tenant is deleted with all that it has"
    started_at: str
    started_by: str
    "the id of an API key"
    state: Literal['running', 'ending', 'done']
    "ending: nothing in the tables is left, and the files are cleared of it"
    tenant: str


class Event(TypedDict):
    accepted_at: str
    content_type: str
    damaged: NotRequired[bool]
    "only in lists: the stored bytes do not match their checksum, so there is no data; a read of the event is answered with the code damaged"
    data: NotRequired[Any]
    "absent if the data is not JSON"
    data_base64: NotRequired[str]
    "instead of data, if that is not JSON"
    deliveries: NotRequired[list[Delivery]]
    "only for a single event; without attempts; of redeliveries the newest 256"
    erased: NotRequired[bool]
    "data and metadata were erased, with the data key that had sealed them"
    erased_at: NotRequired[str]
    "its content was erased then: there is no data and no metadata, and it is never delivered again"
    id: str
    key: str | None
    "null: the event has no order"
    metadata: dict[str, str]
    occurred_at: str
    payload_hidden: NotRequired[bool]
    "the caller may not see data"
    retained_until: NotRequired[str]
    "only for a single event: until then retention deletes none of its deliveries; absent: never"
    source: str | None
    "id of the source that received it; null: it was published"
    source_name: str | None
    "null: it was published, the source is deleted, or the caller may not see sources"
    tenant: str
    type: str


class EventType(TypedDict):
    check: Literal['off', 'refuse']
    "refuse: an event whose data do not satisfy the schema is answered 422, and nothing of it is stored"
    created_at: str
    description: str
    id: str
    labels: dict[str, str]
    "marks of your own"
    name: str
    "the type of the events"
    retain: Literal['all', 'none']
    "none: what an event contains is erased once it is delivered"
    revision: int
    "grows with every change"
    tenant: str
    updated_at: str
    versions: list[TypeVersion]
    "the first one first"


class EventTypePatch(TypedDict):
    check: NotRequired[Literal['off', 'refuse', None]]
    "refuse: an event whose data do not satisfy the schema is answered 422, and nothing of it is stored; off if not given"
    description: NotRequired[str | None]
    labels: NotRequired[dict[str, str | None] | None]
    "marks of your own; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"
    retain: NotRequired[Literal['all', 'none', None]]
    "none: what an event contains is erased within seconds once it is delivered everywhere and none of its deliveries is a dead letter; all if not given"


class Excluded(TypedDict):
    already_replayed: int
    "already replayed with success"
    discarded: int
    "discarded by an operator"
    on_its_way: int
    "already being replayed"
    superseded: int
    "already replayed; their latest copies match too and stand for them"
    tests: int
    "deliveries of test events"


class ExplainWordQuery(TypedDict):
    word: NotRequired[str]
    "the word"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class ExportAuditQuery(TypedDict):
    after: NotRequired[int]
    "number of the last exported entry; needs prev. Refused if the newest entry has a lower one, as after a restore"
    prev: NotRequired[str]
    "hash of its line; needs after"


ExportDeadLettersQuery = TypedDict("ExportDeadLettersQuery", {
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "reason_code": "NotRequired[Literal['exhausted', 'permanent', 'rejected', 'expired', 'endpoint_gone', 'damaged', 'erased']]",
    "error_class": "NotRequired[Literal['dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'nack', 'reject', 'lease_over', 'proxy', 'token', 'none']]",
    "status_code": "NotRequired[int]",
    "text": "NotRequired[str]",
    "filter": "NotRequired[str]",
    "endpoint": "NotRequired[str]",
    "replayed": "NotRequired[Literal['true']]",
    "format": "NotRequired[Literal['jsonl', 'csv']]",
})


ExportDeliveriesQuery = TypedDict("ExportDeliveriesQuery", {
    "status": "NotRequired[list[Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']]]",
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "reason_code": "NotRequired[Literal['exhausted', 'permanent', 'rejected', 'expired', 'endpoint_gone', 'damaged', 'erased']]",
    "error_class": "NotRequired[Literal['dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'nack', 'reject', 'lease_over', 'proxy', 'token', 'none']]",
    "status_code": "NotRequired[int]",
    "text": "NotRequired[str]",
    "filter": "NotRequired[str]",
    "endpoint": "NotRequired[str]",
    "format": "NotRequired[Literal['jsonl', 'csv']]",
})


class FailureGroup(TypedDict):
    answer: str
    "the response's body without numbers, ids and times"
    count: int
    delivery_id: str
    "its last delivery"
    error_class: str
    first: str
    last: str
    status_code: int | None
    "null: there was no response"


class Fault(TypedDict):
    detail: str
    pointer: str
    "a JSON pointer into the body, ?name for a query parameter, or the name of a header"


class Feed(TypedDict):
    data: list[FeedItem]
    gap: bool
    "events behind after are missing: retention has deleted them, or the database was restored to a state before after, and then the page begins with the oldest event"
    more: bool
    "the next request finds more at once"
    next: str
    "the after of the next request, also at the end of the feed"


class FeedItem(TypedDict):
    accepted_at: str
    body: str | None
    "as the endpoint's format and transform make it; null: there is none, or it is no text"
    body_base64: str | None
    "the same, if it is no text"
    delivery_id: str
    event_id: str
    headers: dict[str, str] | None
    "that describe the body: Content-Type, and those of CloudEvents; null: there is no body"
    key: str | None
    missing: str | None
    "why there is no body; null: there is one"
    sequence: int | None
    "position in its lane; null: it has no lane"
    status: Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']
    "of its delivery"
    type: str


class Figures(TypedDict):
    attempt_counts: list[AttemptCount]
    "finished deliveries by number of attempts, none left out but zeros"
    attempted: int
    "finished deliveries that had at least one attempt"
    attempts: int
    attempts_per_delivery: float | None
    "mean attempts of the attempted deliveries"
    delivered: int
    discarded: int
    dropped: int
    duplicates: int
    "events that were published or received again and created nothing; 0 by endpoint: no endpoint has them"
    end_reasons: dict[str, int]
    "finished deliveries that have a reason code, by reason code"
    errors: dict[str, int]
    "failed attempts by class"
    failed: int
    "became dead letters"
    failed_attempts: int
    "attempts that failed"
    first_attempt_success: int
    "first attempts that succeeded"
    first_attempt_success_rate: float | None
    "part of the first attempts that succeeded"
    first_attempts: int
    "first attempts that were made, whether or not their delivery is finished"
    latency: Latency
    "latency of answered attempts; exact to a fifth"
    retried: int
    "finished deliveries with more than one attempt"
    retry_rate: float | None
    "part of the attempted deliveries that needed more than one attempt; attempted: finished with at least one attempt"
    retry_reasons: dict[str, int]
    "attempts after which the delivery stayed pending, by class"
    skipped: int
    time_to_success: Latency
    "from the creation of a delivery to its success, of the delivered ones; exact to a fifth"
    tried_again: int
    "attempts after which the delivery stayed pending"


class GetAlertRuleQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none; without it, the operator's own rules, which hold for tenants that have not changed them"


class GetEventQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class GetEventTypeQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class GetInboxQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class GetQueueQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class GetTenantQuery(TypedDict):
    numbers: NotRequired[Literal['true']]
    "with health, pending deliveries and dead letters"


class Group(TypedDict):
    attempt_counts: list[AttemptCount]
    "finished deliveries by number of attempts, none left out but zeros"
    attempted: int
    "finished deliveries that had at least one attempt"
    attempts: int
    attempts_per_delivery: float | None
    "mean attempts of the attempted deliveries"
    delivered: int
    discarded: int
    dropped: int
    duplicates: int
    "events that were published or received again and created nothing; 0 by endpoint: no endpoint has them"
    end_reasons: dict[str, int]
    "finished deliveries that have a reason code, by reason code"
    endpoint_name: str | None
    "with by=endpoint: name of the endpoint, queue or channel; null: it is deleted"
    errors: dict[str, int]
    "failed attempts by class"
    failed: int
    "became dead letters"
    failed_attempts: int
    "attempts that failed"
    first_attempt_success: int
    "first attempts that succeeded"
    first_attempt_success_rate: float | None
    "part of the first attempts that succeeded"
    first_attempts: int
    "first attempts that were made, whether or not their delivery is finished"
    latency: Latency
    "latency of answered attempts; exact to a fifth"
    name: str
    "the type, endpoint or tenant, or the start of the hour or day; empty: all others"
    other: bool
    "all others, added up: groups beyond the limit, and event types beyond the first 200 of a tenant in an hour"
    retried: int
    "finished deliveries with more than one attempt"
    retry_rate: float | None
    "part of the attempted deliveries that needed more than one attempt; attempted: finished with at least one attempt"
    retry_reasons: dict[str, int]
    "attempts after which the delivery stayed pending, by class"
    skipped: int
    time_to_success: Latency
    "from the creation of a delivery to its success, of the delivered ones; exact to a fifth"
    tried_again: int
    "attempts after which the delivery stayed pending"


class Header(TypedDict):
    name: str
    value: str


class Health(TypedDict):
    drain_estimate: str | None
    "how long the held deliveries take once the endpoint works; with held_more, at least this; null: unknown"
    failing_since: str | None
    "no attempt has succeeded since then; null: the last one succeeded, or the policy has no such rule"
    first_attempts: int
    "first attempts in the last hour, counted once a minute, if one of them failed; else 0"
    first_attempts_failed: int
    "of them: those that failed"
    held: int
    "held deliveries, including those behind their keys; 0 while the endpoint is healthy. Lists count up to 10000, a single endpoint up to 1000000"
    held_more: bool
    "the count stopped at its limit"
    in_flight: int
    "requests in progress"
    next_attempt_at: str | None
    next_probe_at: str | None
    "while open: the next probe is not before this"
    reason: str | None
    "one sentence that explains the state; null: none"
    since: str | None
    "since when it has this state; null: unknown"
    state: Literal['healthy', 'degraded', 'failing', 'open', 'recovering', 'throttled', 'paused', 'disabled', 'unknown']
    "degraded: attempts succeed, but at least 5 % of the first attempts in the last hour failed, of 10 or more and at least 3 of them; failing: no attempt has succeeded since failing_since; open: the circuit is open and only probes are sent; unknown: the server starts or stops. Later versions may have further states: take those that you do not know for trouble"
    strikes: int
    "consecutive failed deliveries that count towards disabling"
    waiting: int
    "lane heads in memory that are due now or soon"


class InboxRequest(TypedDict):
    content_type: str
    event_id: str | None
    "id of the event that it became or, for a conflict, contradicts"
    id: str
    "id of the event; req_… if it did not become one"
    key: str | None
    outcome: Literal['accepted', 'unverified', 'conflict', 'refused']
    reason: str
    "one sentence"
    received_at: str
    size: int
    "size of the body in bytes"
    source_id: str
    source_name: str | None
    "null: the source is deleted"
    tenant: str
    type: str | None
    "type of the event that it became"


class Incident(TypedDict):
    components: list[Literal['accepting', 'delivering', 'receiving', 'dashboard']]
    created_at: str
    ends_at: str | None
    "of an incident: when it was resolved"
    id: str
    impact: Literal['none', 'degraded', 'outage']
    kind: Literal['incident', 'maintenance']
    starts_at: str
    status: Literal['investigating', 'identified', 'monitoring', 'resolved', 'planned', 'underway', 'finished']
    "the last three are of maintenance, and follow the clock"
    title: str
    updates: list[IncidentUpdate]
    "the newest first"


class IncidentUpdate(TypedDict):
    at: str
    status: Literal['investigating', 'identified', 'monitoring', 'resolved', 'planned', 'underway', 'finished']
    text: str


class InlinePolicy(TypedDict):
    breaker: NotRequired[InlinePolicyBreaker0 | Literal[False] | None]
    "false: none; null: the default one"
    classify: NotRequired[dict[str, Literal['retry', 'fail', 'throttle', 'disable']] | None]
    "statuses (404, 4xx) and error classes (timeout) to decisions"
    disable: NotRequired[InlinePolicyDisable | None]
    jitter: NotRequired[float | InlinePolicyJitter1 | None]
    "added to each wait, never subtracted: a fraction of it, or up to a fixed time"
    limits: NotRequired[list[InlinePolicyLimitsItem] | None]
    "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)"
    max_age: NotRequired[str | None]
    "from the first attempt; null: no limit"
    max_attempts: NotRequired[int | None]
    "null: no limit"
    name: NotRequired[str | None]
    on_exhausted: NotRequired[Literal['dead_letter', 'discard', None]]
    preset: NotRequired[str | None]
    "its base: a preset or a policy of the tenant, from which the fields come that are left out; default if not given"
    retry_after: NotRequired[Literal['extend', 'ignore', None]]
    "extend: a receiver's Retry-After may lengthen a wait, never shorten it"
    schedule: NotRequired[InlinePolicySchedule0 | InlinePolicySchedule1 | None]
    shape: NotRequired[Literal['default', 'standard', 'parseo', 'paylera', 'paylera-24h', 'sent', 'webhookify', 'queue', 'hooque', 'svix', None]]
    "the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"
    success: NotRequired[list[str] | None]
    then: NotRequired[Literal['advance', 'block', None]]
    "after an exhausted delivery the key advances or blocks"
    timeout: NotRequired[str | None]
    "of one attempt: connecting, sending, the whole answer"


class InlinePolicyBreaker0(TypedDict):
    failures: NotRequired[int | None]
    probe: NotRequired[str | None]
    probe_max: NotRequired[str | None]
    ratio: NotRequired[float | None]
    window: NotRequired[str | None]


class InlinePolicyDisable(TypedDict):
    after: NotRequired[str | None]
    "0s: never"
    consecutive: NotRequired[int | None]
    "0: never"
    of: NotRequired[Literal['status_4xx', 'status_5xx', 'timeout', 'connect', 'dns', 'tls', 'reset', 'protocol', 'redirect', None]]
    pending: NotRequired[Literal['hold', 'drop', None]]


class InlinePolicyJitter1(TypedDict):
    add: str


class InlinePolicyLimitsItem(TypedDict):
    attempts: int
    "all attempts of the delivery count, whatever they were answered"
    codes: list[str]
    within: NotRequired[str]
    "from the first attempt"


class InlinePolicyPatch(TypedDict):
    breaker: NotRequired[InlinePolicyPatchBreaker0 | Literal[False] | None]
    "false: none; null: the default one"
    classify: NotRequired[dict[str, Literal['retry', 'fail', 'throttle', 'disable', None]] | None]
    "statuses (404, 4xx) and error classes (timeout) to decisions"
    disable: NotRequired[InlinePolicyPatchDisable | None]
    jitter: NotRequired[float | InlinePolicyPatchJitter1 | None]
    "added to each wait, never subtracted: a fraction of it, or up to a fixed time"
    limits: NotRequired[list[InlinePolicyPatchLimitsItem] | None]
    "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)"
    max_age: NotRequired[str | None]
    "from the first attempt; null: no limit"
    max_attempts: NotRequired[int | None]
    "null: no limit"
    name: NotRequired[str | None]
    on_exhausted: NotRequired[Literal['dead_letter', 'discard', None]]
    preset: NotRequired[str | None]
    "its base: a preset or a policy of the tenant, from which the fields come that are left out; default if not given"
    retry_after: NotRequired[Literal['extend', 'ignore', None]]
    "extend: a receiver's Retry-After may lengthen a wait, never shorten it"
    schedule: NotRequired[InlinePolicyPatchSchedule | None]
    shape: NotRequired[Literal['default', 'standard', 'parseo', 'paylera', 'paylera-24h', 'sent', 'webhookify', 'queue', 'hooque', 'svix', None]]
    "the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"
    success: NotRequired[list[str] | None]
    then: NotRequired[Literal['advance', 'block', None]]
    "after an exhausted delivery the key advances or blocks"
    timeout: NotRequired[str | None]
    "of one attempt: connecting, sending, the whole answer"


class InlinePolicyPatchBreaker0(TypedDict):
    failures: NotRequired[int | None]
    probe: NotRequired[str | None]
    probe_max: NotRequired[str | None]
    ratio: NotRequired[float | None]
    window: NotRequired[str | None]


class InlinePolicyPatchDisable(TypedDict):
    after: NotRequired[str | None]
    "0s: never"
    consecutive: NotRequired[int | None]
    "0: never"
    of: NotRequired[Literal['status_4xx', 'status_5xx', 'timeout', 'connect', 'dns', 'tls', 'reset', 'protocol', 'redirect', None]]
    pending: NotRequired[Literal['hold', 'drop', None]]


class InlinePolicyPatchJitter1(TypedDict):
    add: NotRequired[str | None]


class InlinePolicyPatchLimitsItem(TypedDict):
    attempts: int
    "all attempts of the delivery count, whatever they were answered"
    codes: list[str]
    within: NotRequired[str]
    "from the first attempt"


class InlinePolicyPatchSchedule(TypedDict):
    base: NotRequired[str | None]
    "the wait before attempt 2"
    delays: NotRequired[list[str] | None]
    "one per attempt; the first is the wait before attempt 1"
    factor: NotRequired[float | None]
    max: NotRequired[str | None]
    "longest wait"
    mode: NotRequired[Literal['since_previous', 'since_first', 'exponential', None]]
    tail: NotRequired[Literal['stop', 'repeat', None]]
    "stop after the table, or repeat its last wait"


class InlinePolicySchedule0(TypedDict):
    delays: list[str]
    "one per attempt; the first is the wait before attempt 1"
    mode: NotRequired[Literal['since_previous', 'since_first', None]]
    "start of the count of a delay"
    tail: NotRequired[Literal['stop', 'repeat', None]]
    "stop after the table, or repeat its last wait"


class InlinePolicySchedule1(TypedDict):
    base: str
    "the wait before attempt 2"
    factor: NotRequired[float | None]
    max: NotRequired[str | None]
    "longest wait"
    mode: NotRequired[Literal['exponential', None]]


class Intake(TypedDict):
    body: NotRequired[Any]
    "if the body is JSON"
    body_base64: NotRequired[str]
    "all bytes of the body, if it is neither JSON nor text, or is JSON with spaces between or around its parts"
    body_text: NotRequired[str]
    "if the body is text but not JSON"
    checks: list[Check]
    "steps of the verification"
    content_type: str
    erased: NotRequired[bool]
    "the request and its checks were erased, with the data key that had sealed them"
    event_id: str | None
    "id of the event that it became or, for a conflict, contradicts"
    headers: list[Header]
    "as received; secrets are [redacted]"
    id: str
    "id of the event; req_… if it did not become one"
    key: str | None
    known_by: IntakeKnownBy | None
    "null: it has no dedupe key"
    method: str
    outcome: Literal['accepted', 'unverified', 'conflict', 'refused']
    path: str
    "path with query"
    payload_hidden: NotRequired[bool]
    "the caller may not see values of headers and the body"
    reason: str
    "one sentence"
    received_at: str
    remote: str
    "address of the sender"
    size: int
    "size of the body in bytes"
    source_id: str
    source_name: str | None
    "null: the source is deleted"
    tenant: str
    type: str | None
    "type of the event that it became"


class IntakeKnownBy(TypedDict):
    by: Literal['event_id', 'delivery_id', 'content']
    value: str
    "the id, or a hash of the content"


class Issue(TypedDict):
    answer: str
    "the response's body without numbers, ids and times"
    approximate: bool
    "deliveries or keys is an estimate: it is exact below 128, and within about a tenth above"
    changed_at: str | None
    "of its state"
    changed_by: str | None
    "the id of an API key, a person, or grapnel"
    deliveries: int
    "number of deliveries that failed"
    delivery_ids: list[str]
    "newest deliveries, at most 5"
    endpoint_id: str
    endpoint_name: str | None
    "name of the endpoint, queue or channel: its description, else its URL without scheme and query; null: it is deleted"
    error_class: str
    "other: failures of the endpoint that got no issue of their own, because there are too many different ones"
    events_from: str | None
    "a replay of it has no event that was accepted before; null: any"
    failures: int
    "failed attempts, as an indication: a crash loses the count of the last seconds"
    first_seen: str
    hours: list[int]
    "failures of each of the 48 hours up to now"
    hours_from: str
    "begin of the first of the hours"
    id: str
    "follows from endpoint, error class, status code and answer"
    keys: int
    "number of ordering keys that they have"
    last_seen: str
    muted_until: str | None
    note: str | None
    owner: str | None
    "the person or team that takes care of it"
    regressions: int
    "failures after a resolution that opened it again"
    reopened_at: str | None
    resolution: str | None
    "why it was resolved"
    resolved_at: str | None
    "the last time"
    resolves_after: int
    "successes of the endpoint after the last failure that resolve it; doubled by each regression"
    sentence: str
    "the failure, its beginning, its counts, and its state"
    since: str
    "the first failure after the last resolution; first_seen if there was none"
    state: Literal['open', 'acknowledged', 'muted', 'resolved']
    status_code: int | None
    "null: there was no response"
    tenant: str
    why: NotRequired[Causes]
    "what these failures have in common and successes have not; only in the answer about one issue, and not while others are being explained"


class IssueChangesPatch(TypedDict):
    muted_until: NotRequired[str | None]
    "with the state muted: at most 30 days ahead; 24 hours if not given"
    note: NotRequired[str | None]
    "for the next person who looks at it; null or empty: none"
    owner: NotRequired[str | None]
    "a person or team; null or empty: none"
    reason: NotRequired[str | None]
    "why; kept in the audit, and with a resolution in the issue"
    state: NotRequired[Literal['open', 'acknowledged', 'muted', 'resolved', None]]


class Item(TypedDict):
    delivery_id: str
    "id of the new delivery"
    key: str | None
    "of the event; null: it has none, or the new delivery is deleted"
    made_at: str
    original_id: str
    status: Literal['pending', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']
    "status of the new delivery; pending: not finished"
    type: str | None
    "of the event; null: the new delivery is deleted"


class JWK(TypedDict):
    alg: str
    "EdDSA"
    crv: str
    "Ed25519"
    kid: str
    "the key's thumbprint (RFC 7638)"
    kty: str
    "OKP"
    use: str
    "sig"
    x: str
    "the key's 32 bytes, base64url"


class JWKS(TypedDict):
    keys: list[JWK]
    "the newest first"


Key = TypedDict("Key", {
    "created_at": "str",
    "endpoints": "NotRequired[list[str]]",
    "expires_at": "NotRequired[str]",
    "from": "NotRequired[list[str]]",
    "id": "str",
    "key": "NotRequired[str]",
    "last_used_at": "NotRequired[str]",
    "name": "str",
    "payloads": "NotRequired[bool]",
    "role": "NotRequired[Literal['viewer', 'operator', 'developer', 'admin']]",
    "scopes": "list[Literal['publish', 'read', 'manage', 'replay', 'consume', 'admin', 'endpoints:write', 'secrets:reveal', 'operate', 'payload:read', 'alerts:read']]",
    "tenant": "str | None",
})


KeyPatch = TypedDict("KeyPatch", {
    "expires_at": "NotRequired[str | None]",
    "from": "NotRequired[list[str] | None]",
    "name": "NotRequired[str]",
    "scopes": "NotRequired[list[Literal['publish', 'read', 'manage', 'replay', 'consume', 'admin']]]",
})


class Lane(TypedDict):
    head: Delivery
    "its first delivery, which holds the others"
    key: str
    since: str | None
    "when its first delivery was first attempted, or became the first"
    waiting: int
    "deliveries held behind the first; at most 10000 are counted"
    waiting_more: bool
    "the count stopped at its limit"


class Latency(TypedDict):
    p50: str | None
    p95: str | None
    p99: str | None


class Lease(TypedDict):
    attempt: int
    consumer: str
    delivery_id: str
    lease: str
    lease_expires_at: str
    queue_id: str


class ListAlert(TypedDict):
    data: list[Alert]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListAlertRule(TypedDict):
    data: list[AlertRule]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListAlertRulesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none; without it, the operator's own rules, which hold for tenants that have not changed them"


class ListAlertsQuery(TypedDict):
    state: NotRequired[Literal['firing', 'acknowledged', 'resolved']]
    "only those in this state"
    rule: NotRequired[str]
    "the name of a rule"
    endpoint: NotRequired[str]
    "only alerts about this endpoint, queue or channel"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListAudit(TypedDict):
    data: list[Audit]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListAuditQuery(TypedDict):
    endpoint: NotRequired[str]
    "an endpoint's id"
    delivery: NotRequired[str]
    "a delivery's id"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only entries whose name, actor, verb or reason contains this, or whose endpoint_id begins with it; letters may be small or capital. A page looks at a limited number of entries: it may be short while next says that more can be searched"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListChannel(TypedDict):
    data: list[Channel]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListChannelsQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListContact(TypedDict):
    data: list[Contact]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListContactsQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


ListDeadLettersQuery = TypedDict("ListDeadLettersQuery", {
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "reason_code": "NotRequired[Literal['exhausted', 'permanent', 'rejected', 'expired', 'endpoint_gone', 'damaged', 'erased']]",
    "error_class": "NotRequired[Literal['dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'nack', 'reject', 'lease_over', 'proxy', 'token', 'none']]",
    "status_code": "NotRequired[int]",
    "text": "NotRequired[str]",
    "filter": "NotRequired[str]",
    "endpoint": "NotRequired[str]",
    "replayed": "NotRequired[Literal['true']]",
    "limit": "NotRequired[int]",
    "cursor": "NotRequired[str]",
})


ListDeliveriesQuery = TypedDict("ListDeliveriesQuery", {
    "status": "NotRequired[list[Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']]]",
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "reason_code": "NotRequired[Literal['exhausted', 'permanent', 'rejected', 'expired', 'endpoint_gone', 'damaged', 'erased']]",
    "error_class": "NotRequired[Literal['dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'nack', 'reject', 'lease_over', 'proxy', 'token', 'none']]",
    "status_code": "NotRequired[int]",
    "text": "NotRequired[str]",
    "filter": "NotRequired[str]",
    "endpoint": "NotRequired[str]",
    "limit": "NotRequired[int]",
    "cursor": "NotRequired[str]",
})


class ListDelivery(TypedDict):
    data: list[Delivery]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListDuplicate(TypedDict):
    data: list[Duplicate]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListDuplicatesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    event: NotRequired[str]
    "only this event"


class ListEndpoint(TypedDict):
    data: list[Endpoint]
    next: str | None
    "cursor of the next page; null: this is the last"


ListEndpointDeliveriesQuery = TypedDict("ListEndpointDeliveriesQuery", {
    "status": "NotRequired[list[Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']]]",
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "reason_code": "NotRequired[Literal['exhausted', 'permanent', 'rejected', 'expired', 'endpoint_gone', 'damaged', 'erased']]",
    "error_class": "NotRequired[Literal['dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'nack', 'reject', 'lease_over', 'proxy', 'token', 'none']]",
    "status_code": "NotRequired[int]",
    "text": "NotRequired[str]",
    "filter": "NotRequired[str]",
    "limit": "NotRequired[int]",
    "cursor": "NotRequired[str]",
})


class ListEndpointLanesQuery(TypedDict):
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListEndpointsQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    id: NotRequired[list[str]]
    "only these endpoints; repeated or separated by commas"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    label: NotRequired[str]
    "only endpoints with this label: NAME=VALUE, or NAME for any value"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListErasure(TypedDict):
    data: list[Erasure]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListErasuresQuery(TypedDict):
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListEvent(TypedDict):
    data: list[Event]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListEventType(TypedDict):
    data: list[EventType]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListEventTypesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


ListEventsQuery = TypedDict("ListEventsQuery", {
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "source": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "text": "NotRequired[str]",
    "limit": "NotRequired[int]",
    "cursor": "NotRequired[str]",
})


ListInboxQuery = TypedDict("ListInboxQuery", {
    "source": "NotRequired[str]",
    "outcome": "NotRequired[Literal['accepted', 'unverified', 'conflict', 'refused']]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "limit": "NotRequired[int]",
    "cursor": "NotRequired[str]",
})


class ListInboxRequest(TypedDict):
    data: list[InboxRequest]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListIncident(TypedDict):
    data: list[Incident]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListIncidentsQuery(TypedDict):
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListIssue(TypedDict):
    data: list[Issue]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListIssuesQuery(TypedDict):
    state: NotRequired[list[Literal['open', 'acknowledged', 'muted', 'resolved']]]
    "one or more states, repeated or separated by commas"
    endpoint: NotRequired[str]
    "an endpoint's id"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListItem(TypedDict):
    data: list[Item]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListKey(TypedDict):
    data: list[Key]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListKeysQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListLane(TypedDict):
    data: list[Lane]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListLanesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListPoliciesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListPolicy(TypedDict):
    data: list[NamedPolicy]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListQueue(TypedDict):
    data: list[Queue]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListQueuesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListReplay(TypedDict):
    data: list[Replay]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListReplayItemsQuery(TypedDict):
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListReplaysQuery(TypedDict):
    endpoint: NotRequired[str]
    "an endpoint's id"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    active: NotRequired[Literal['true']]
    "only those that are running or paused"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListSource(TypedDict):
    data: list[Source]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListSourcesQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class ListTenant(TypedDict):
    data: list[Tenant]
    next: str | None
    "cursor of the next page; null: this is the last"


class ListTenantsQuery(TypedDict):
    search: NotRequired[str]
    "only things whose name, description or URL contains this, or whose id begins with it; letters may be small or capital"
    numbers: NotRequired[Literal['true']]
    "with health, pending deliveries and dead letters"
    limit: NotRequired[int]
    "how many to return at most: 1 to 500, 50 if not given"
    cursor: NotRequired[str]
    "next of the previous page"


class MasterKey(TypedDict):
    data_keys: int
    "how many there are: one for each tenant, and the operator's"
    id: str
    "of the master key that now wraps all data keys. It says nothing about the key"
    wrapped: int
    "how many of them this call has wrapped anew"


Meaning = TypedDict("Meaning", {
    "as": "Literal['delivery', 'event', 'endpoint', 'key', 'type', 'source', 'tenant', 'text']",
    "id": "str | None",
    "name": "str | None",
    "things": "list[Thing]",
    "word": "str",
})


class Member(TypedDict):
    address: str
    "address at which other nodes reach it"
    draining: bool
    id: str
    "node id, new at each start; deliveries carry it as grapnel-node"
    seen_seconds_ago: float
    shards: int
    "number of shards that the node owns"
    shards_intended: int
    "number of shards after rebalancing"
    shards_lagging: int
    "owned shards whose renewal is overdue; the node loses them within a third of a lease unless it renews them"
    state: Literal['up', 'draining', 'silent']
    "draining: it is about to stop, and releases its shards; silent: it has not reported, and other nodes take its shards once its leases have expired"


class Message(TypedDict):
    body: Any
    "as sent; null if it is not JSON"
    body_base64: NotRequired[str]
    "all bytes as sent, if it is not JSON, has space around it, or has line breaks with CR; else body has all"
    meta: Meta


class MessageList(TypedDict):
    data: list[Message]


class Meta(TypedDict):
    ack_url: str
    attempt: int
    "1 for the first"
    content_type: str
    delivery_id: str
    event_id: str
    extend_url: str
    first_seen_at: str
    "when the event was accepted"
    key: str | None
    lease: str
    "token to settle it, valid once"
    lease_expires_at: str
    nack_url: str
    reject_url: str
    traceparent: NotRequired[str]
    "W3C trace context for the consumer, in the trace of the publish; absent: none"
    type: str


class NamedPolicy(TypedDict):
    breaker: NotRequired[NamedPolicyBreaker0 | Literal[False] | None]
    "false: none; null: the default one"
    changes: list[str]
    "fields in which it differs from that one"
    classify: NotRequired[dict[str, Literal['retry', 'fail', 'throttle', 'disable']]]
    "statuses (404, 4xx) and error classes (timeout) to decisions"
    created_at: str | None
    disable: NotRequired[NamedPolicyDisable]
    id: str | None
    "null: a preset"
    jitter: NotRequired[float | NamedPolicyJitter1]
    "added to each wait, never subtracted: a fraction of it, or up to a fixed time"
    limits: NotRequired[list[NamedPolicyLimitsItem]]
    "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)"
    max_age: NotRequired[str | None]
    "from the first attempt; null: no limit"
    max_attempts: NotRequired[int | None]
    "null: no limit"
    name: str
    on_exhausted: NotRequired[Literal['dead_letter', 'discard']]
    preset: str
    "the policy that it was made from; a preset names itself"
    retry_after: NotRequired[Literal['extend', 'ignore']]
    "extend: a receiver's Retry-After may lengthen a wait, never shorten it"
    schedule: NotRequired[NamedPolicySchedule0 | NamedPolicySchedule1]
    shape: NotRequired[Literal['default', 'standard', 'parseo', 'paylera', 'paylera-24h', 'sent', 'webhookify', 'queue', 'hooque', 'svix']]
    "the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"
    success: NotRequired[list[str]]
    tenant: str | None
    then: NotRequired[Literal['advance', 'block']]
    "after an exhausted delivery the key advances or blocks"
    timeout: NotRequired[str]
    "of one attempt: connecting, sending, the whole answer"
    updated_at: str | None


class NamedPolicyBreaker0(TypedDict):
    failures: NotRequired[int]
    probe: NotRequired[str]
    probe_max: NotRequired[str]
    ratio: NotRequired[float]
    window: NotRequired[str]


class NamedPolicyDisable(TypedDict):
    after: NotRequired[str]
    "0s: never"
    consecutive: NotRequired[int]
    "0: never"
    of: NotRequired[Literal['status_4xx', 'status_5xx', 'timeout', 'connect', 'dns', 'tls', 'reset', 'protocol', 'redirect']]
    pending: NotRequired[Literal['hold', 'drop']]


class NamedPolicyJitter1(TypedDict):
    add: str


class NamedPolicyLimitsItem(TypedDict):
    attempts: int
    "all attempts of the delivery count, whatever they were answered"
    codes: list[str]
    within: NotRequired[str]
    "from the first attempt"


class NamedPolicySchedule0(TypedDict):
    delays: list[str]
    "one per attempt; the first is the wait before attempt 1"
    mode: NotRequired[Literal['since_previous', 'since_first']]
    "start of the count of a delay"
    tail: NotRequired[Literal['stop', 'repeat']]
    "stop after the table, or repeat its last wait"


class NamedPolicySchedule1(TypedDict):
    base: str
    "the wait before attempt 2"
    factor: NotRequired[float]
    max: NotRequired[str]
    "longest wait"
    mode: NotRequired[Literal['exponential']]


NewAck = dict[str, Any]


NewBacktest = TypedDict("NewBacktest", {
    "for": "NotRequired[str | None]",
    "threshold": "NotRequired[float | None]",
})


class NewBatch(TypedDict):
    events: list[NewEvent]


class NewChannel(TypedDict):
    description: NotRequired[str | None]
    digest: NotRequired[str | None]
    "alerts below the severity page are gathered for this long and sent as one; 0s: each is sent at once"
    quiet_hours: NotRequired[QuietHours | None]
    "a part of every day in which only alerts of the severity page are sent; none: no such part"
    rules: NotRequired[list[str] | None]
    "only alerts of these rules, such as endpoint_failing; none: every rule"
    severities: NotRequired[list[Literal['page', 'warning', 'info']] | None]
    "only alerts of these: page, warning, info; none: every severity"
    status: NotRequired[Literal['enabled', 'paused', 'disabled', None]]
    "paused: alerts are held; enabled if not given"
    tenant: NotRequired[str | None]
    "the key's tenant, else default; _operator: alerts about the server itself; *: alerts of all tenants, and about the server; both for keys without a tenant"
    url: str
    "the URL of a webhook as the service shows it (https://hooks.slack.com/services/…), or of a service as shoutrrr writes it: slack://…, telegram://…, smtp://…; it holds credentials, so answers show it masked"


class NewContact(TypedDict):
    confirmed: NotRequired[bool | None]
    "the address needs no confirmation; only from keys without a tenant"
    description: NotRequired[str | None]
    mail: NotRequired[str | None]
    "the address of one mailbox; this or url. A mail with a link asks to confirm it, and nothing else goes there before"
    tenant: NotRequired[str | None]
    "the key's tenant, else default"
    url: NotRequired[str | None]
    "the URL of a chat's webhook as the chat shows it, or as shoutrrr writes it: slack://…, teams://…, discord://…; this or mail. It holds credentials, so answers show it masked"


class NewDiscard(TypedDict):
    reason: str
    "reason, stored with the delivery and in the audit"


class NewEndpoint(TypedDict):
    description: NotRequired[str | None]
    event_types: NotRequired[list[str] | None]
    "patterns in which a whole segment may be *; none: every type"
    filter: NotRequired[str | None]
    "a CEL expression over event (type, key, data, metadata)"
    format: NotRequired[Literal['standard', 'raw', 'cloudevents', 'batch', None]]
    "form of the request; that of the policy's preset if not given, else standard"
    headers: NotRequired[dict[str, str] | None]
    "sent with every delivery; {event.id}, {event.type}, {event.key}, {event.timestamp}, {delivery.id}, {attempt} and {retry} stand for their values, {{ and }} for braces; values are [redacted] for a key without the scope manage"
    labels: NotRequired[dict[str, str] | None]
    "marks of your own, such as {\"team\":\"billing\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes; lists can be filtered by one, and no delivery depends on them"
    max_concurrency: NotRequired[int | None]
    "requests at once; 32 if not given"
    method: NotRequired[Literal['POST', 'PUT', 'PATCH', None]]
    "of the requests; POST if not given"
    oauth2: NotRequired[OAuth2 | None]
    "client credentials (RFC 6749): requests carry a bearer token of this token server; none: they carry none"
    ordering: NotRequired[Literal['key', 'none', None]]
    "none: events of one key do not wait for each other; that of the policy's preset if not given, else key"
    policy: NotRequired[str | InlinePolicy | None]
    "the name of a policy, or a policy, whose preset names its base; none: default"
    proxy: NotRequired[str | None]
    "URL of a forward proxy that connections go through (CONNECT), with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"
    rate_limit: NotRequired[RateLimit | None]
    "none: no limit"
    secret: NotRequired[str | None]
    "whsec_… or whsk_…; none: one is made. Shown in the answer that makes it, and never again"
    signature_headers: NotRequired[Literal['standard', 'svix', None]]
    "svix: svix-id, svix-timestamp and svix-signature besides webhook-id and so on; standard if not given"
    source: NotRequired[str | None]
    "the id of a source: only events that it received; none: events of any origin"
    status: NotRequired[Literal['enabled', 'paused', 'disabled', None]]
    "paused: deliveries are held; enabled if not given"
    target: NotRequired[Target | None]
    "a broker that gets deliveries as messages, in the place of a URL; none: the URL gets them"
    tenant: NotRequired[str | None]
    "the key's tenant, else default"
    tls: NotRequired[TLS | None]
    "a client certificate, and the authorities that are trusted; none: no certificate, and those of the system"
    trace: NotRequired[bool | None]
    "requests have the header traceparent, so that the receiver continues the publisher's trace; false if not given. tracestate and baggage are never sent"
    transform: NotRequired[str | None]
    "a jq expression over the standard body (id, type, timestamp, data) whose one result is the body to send, as JSON; none: the preset's, or the body of the format"
    url: NotRequired[str | None]
    "URL that gets deliveries as requests; required unless target is given, whose address answers have here. Values of its query are [redacted] for a caller who may not change the endpoint"


class NewErasure(TypedDict):
    filter: NotRequired[str | None]
    "events that this CEL expression is true for, as in endpoints"
    key: NotRequired[str | None]
    "events with this ordering key"
    metadata: NotRequired[dict[str, str] | None]
    "events that have all of these members in their metadata"
    reason: str
    "why; kept in the audit, so leave names of people out"
    tenant: str


class NewEvent(TypedDict):
    aggregate_id: NotRequired[str | None]
    "with its type and a slash, at most 256 bytes"
    aggregate_type: NotRequired[str | None]
    "with aggregate_id instead of key, which becomes type/id; has no slash"
    data: Any
    "any JSON; stored and delivered byte for byte"
    deliver_at: NotRequired[str | None]
    "when its deliveries begin, at most 30 days ahead (--max-ahead); none, or a time that has passed: at once. The event is durable now. Later events of its key wait behind it, because order is the promise; a replay does not wait"
    id: NotRequired[str | None]
    "makes publishing idempotent: the same id again changes nothing"
    key: NotRequired[str | None]
    "the ordering key: events of one key reach an endpoint one after the other. None: no order"
    metadata: NotRequired[dict[str, str] | None]
    "at most 32 strings of at most 1024 bytes"
    occurred_at: NotRequired[str | None]
    "when it happened; none: when it was accepted"
    tenant: NotRequired[str | None]
    "the key's tenant, else default"
    type: str
    "dotted segments of [A-Za-z0-9_-]"


class NewEventType(TypedDict):
    check: NotRequired[Literal['off', 'refuse', None]]
    "refuse: an event whose data do not satisfy the schema is answered 422, and nothing of it is stored; off if not given"
    description: NotRequired[str | None]
    example: NotRequired[Any]
    "data that satisfy the schema"
    labels: NotRequired[dict[str, str] | None]
    "marks of your own; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"
    name: str
    "the type of the events"
    note: NotRequired[str | None]
    "of version 1, for people"
    retain: NotRequired[Literal['all', 'none', None]]
    "none: what an event contains is erased within seconds once it is delivered everywhere and none of its deliveries is a dead letter; all if not given"
    schema: NotRequired[Any]
    "JSON Schema 2020-12 of the events' data, at most 64 KiB; references begin with #"
    tenant: NotRequired[str | None]
    "the tenant of the key if not given, else default"


class NewExtension(TypedDict):
    by: NotRequired[str | None]
    "1s to 12h from now; the queue's lease if not given"


class NewIncident(TypedDict):
    components: NotRequired[list[Literal['accepting', 'delivering', 'receiving', 'dashboard']] | None]
    "the parts that it is about"
    ends_at: NotRequired[str | None]
    "end of planned maintenance, which needs it"
    impact: NotRequired[Literal['none', 'degraded', 'outage', None]]
    kind: NotRequired[Literal['incident', 'maintenance', None]]
    starts_at: NotRequired[str | None]
    "now if not given; maintenance needs it"
    status: NotRequired[Literal['investigating', 'identified', 'monitoring', None]]
    "of an incident; investigating if not given"
    text: str
    "public: the first message"
    title: str
    "public: one line that says what readers notice"


class NewIncidentUpdate(TypedDict):
    ends_at: NotRequired[str | None]
    "another end of planned maintenance"
    status: NotRequired[Literal['investigating', 'identified', 'monitoring', 'resolved', None]]
    "as before if not given. resolved ends it; of maintenance it is the only one"
    text: str
    "public"


class NewIssueReplay(TypedDict):
    canary: NotRequired[bool | None]
    "create the others only after the first one has succeeded"
    dry_run: NotRequired[bool | None]
    "count and create nothing"
    rate: NotRequired[float | None]
    "deliveries created per second; 100 if not given"
    reason: NotRequired[str | None]
    "why; kept in the audit"
    stop_after: NotRequired[int | None]
    "stop after this number of failures in a row; none: never"


NewKey = TypedDict("NewKey", {
    "expires_at": "NotRequired[str | None]",
    "from": "NotRequired[list[str] | None]",
    "name": "str",
    "scopes": "list[Literal['publish', 'read', 'manage', 'replay', 'consume', 'admin']]",
    "tenant": "NotRequired[str | None]",
})


class NewNack(TypedDict):
    delay: NotRequired[str | None]
    "time until it can be leased again, 0s to 24h; by the policy if not given"
    reason: NotRequired[str | None]
    "stored with the attempt"


class NewPolicy(TypedDict):
    breaker: NotRequired[NewPolicyBreaker0 | Literal[False] | None]
    "false: none; null: the default one"
    classify: NotRequired[dict[str, Literal['retry', 'fail', 'throttle', 'disable']] | None]
    "statuses (404, 4xx) and error classes (timeout) to decisions"
    disable: NotRequired[NewPolicyDisable | None]
    jitter: NotRequired[float | NewPolicyJitter1 | None]
    "added to each wait, never subtracted: a fraction of it, or up to a fixed time"
    limits: NotRequired[list[NewPolicyLimitsItem] | None]
    "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)"
    max_age: NotRequired[str | None]
    "from the first attempt; null: no limit"
    max_attempts: NotRequired[int | None]
    "null: no limit"
    name: str
    on_exhausted: NotRequired[Literal['dead_letter', 'discard', None]]
    preset: NotRequired[str | None]
    "its base: a preset or a policy of the tenant, from which the fields come that are left out; default if not given"
    retry_after: NotRequired[Literal['extend', 'ignore', None]]
    "extend: a receiver's Retry-After may lengthen a wait, never shorten it"
    schedule: NotRequired[NewPolicySchedule0 | NewPolicySchedule1 | None]
    shape: NotRequired[Literal['default', 'standard', 'parseo', 'paylera', 'paylera-24h', 'sent', 'webhookify', 'queue', 'hooque', 'svix', None]]
    "the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"
    success: NotRequired[list[str] | None]
    tenant: NotRequired[str | None]
    "the key's tenant, else default"
    then: NotRequired[Literal['advance', 'block', None]]
    "after an exhausted delivery the key advances or blocks"
    timeout: NotRequired[str | None]
    "of one attempt: connecting, sending, the whole answer"


class NewPolicyBreaker0(TypedDict):
    failures: NotRequired[int | None]
    probe: NotRequired[str | None]
    probe_max: NotRequired[str | None]
    ratio: NotRequired[float | None]
    window: NotRequired[str | None]


class NewPolicyDisable(TypedDict):
    after: NotRequired[str | None]
    "0s: never"
    consecutive: NotRequired[int | None]
    "0: never"
    of: NotRequired[Literal['status_4xx', 'status_5xx', 'timeout', 'connect', 'dns', 'tls', 'reset', 'protocol', 'redirect', None]]
    pending: NotRequired[Literal['hold', 'drop', None]]


class NewPolicyJitter1(TypedDict):
    add: str


class NewPolicyLimitsItem(TypedDict):
    attempts: int
    "all attempts of the delivery count, whatever they were answered"
    codes: list[str]
    within: NotRequired[str]
    "from the first attempt"


class NewPolicySchedule0(TypedDict):
    delays: list[str]
    "one per attempt; the first is the wait before attempt 1"
    mode: NotRequired[Literal['since_previous', 'since_first', None]]
    "start of the count of a delay"
    tail: NotRequired[Literal['stop', 'repeat', None]]
    "stop after the table, or repeat its last wait"


class NewPolicySchedule1(TypedDict):
    base: str
    "the wait before attempt 2"
    factor: NotRequired[float | None]
    max: NotRequired[str | None]
    "longest wait"
    mode: NotRequired[Literal['exponential', None]]


class NewPortalLink(TypedDict):
    endpoints: NotRequired[list[str] | None]
    "only these endpoints of the tenant. Without this field: all, and new ones can be added"
    expires_in: NotRequired[str | None]
    "how long the link can be opened, once"
    locale: NotRequired[str | None]
    "how dates and times are written, such as de-DE or en-US; none: 23 Nov, 14:45. The sentences are English"
    return_url: NotRequired[str | None]
    "where the portal's link back leads"
    scopes: NotRequired[list[Literal['read', 'replay', 'endpoints:write', 'secrets:reveal', 'payload:read', 'alerts:read']] | None]
    "none: read. endpoints:write: add, change, pause and delete endpoints; secrets:reveal: see the secrets that this creates; payload:read: see data of events, and bodies and header values of requests; alerts:read: see alerts about the endpoints, but not where they are sent"
    session: NotRequired[str | None]
    "how long the portal stays open after that"
    subject: NotRequired[str | None]
    "who opens it, as your own system calls them; the audit says portal/ and this"
    theme: NotRequired[Literal['auto', 'light', 'dark', None]]
    "colours; none: as the person's system"


class NewPurge(TypedDict):
    confirm: str
    "the queue's name, as a guard against emptying another queue by mistake"
    reason: NotRequired[str | None]
    "why; kept in the audit"


class NewQueue(TypedDict):
    description: NotRequired[str | None]
    event_types: NotRequired[list[str] | None]
    "patterns in which a whole segment may be *; none: every type"
    filter: NotRequired[str | None]
    "a CEL expression over event (type, key, data, metadata)"
    lease: NotRequired[str | None]
    "duration of a lease, 1s to 12h; 30s if not given"
    max_leased: NotRequired[int | None]
    "leases that one consumer may hold at once; 1000 if not given"
    name: str
    "name for consumers: [A-Za-z0-9_-], not in the form of a queue's id; unique within the tenant"
    ordering: NotRequired[Literal['key', 'none', None]]
    "none: events of one key do not wait for each other; that of the policy's preset if not given, else key"
    policy: NotRequired[str | InlinePolicy | None]
    "the name of a policy, or a policy; none: the preset queue"
    quiet: NotRequired[bool | None]
    "only its consumers notice it: no webhook_endpoint.* events are about it, no statistics count it, and a delivery that would be a dead letter or block its key is discarded; false if not given"
    source: NotRequired[str | None]
    "the id of a source: only events that it received; none: events of any origin"
    status: NotRequired[Literal['enabled', 'paused', 'disabled', None]]
    "paused: nothing is leased; enabled if not given"
    tenant: NotRequired[str | None]
    "the key's tenant, else default"


class NewReason(TypedDict):
    reason: NotRequired[str | None]
    "reason for the audit"


class NewReject(TypedDict):
    reason: NotRequired[str | None]
    "stored with the attempt"


NewReplay = TypedDict("NewReplay", {
    "again": "NotRequired[bool | None]",
    "canary": "NotRequired[bool | None]",
    "count_for": "NotRequired[str | None]",
    "deliveries": "NotRequired[list[str] | None]",
    "dry_run": "NotRequired[bool | None]",
    "error_class": "NotRequired[Literal['none', 'dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'internal', 'nack', 'reject', 'lease_over', None]]",
    "event_types": "NotRequired[list[str] | None]",
    "from": "NotRequired[str | None]",
    "keys": "NotRequired[list[str] | None]",
    "rate": "NotRequired[float | None]",
    "reason": "NotRequired[str | None]",
    "status": "NotRequired[list[Literal['delivered', 'failed', 'dropped', 'discarded', 'skipped']] | None]",
    "status_code": "NotRequired[int | None]",
    "stop_after": "NotRequired[int | None]",
    "to": "NotRequired[str | None]",
})


class NewRetry(TypedDict):
    error_class: NotRequired[Literal['none', 'dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'internal', 'nack', 'reject', 'lease_over', None]]
    "only those whose last attempt ended in this"
    event_types: NotRequired[list[str] | None]
    "only these; a whole segment may be *"
    keys: NotRequired[list[str] | None]
    "only these ordering keys"
    reason: NotRequired[str | None]
    "why; kept in the audit"
    status_code: NotRequired[int | None]
    "only those whose last attempt got this response"


class NewRotation(TypedDict):
    overlap: NotRequired[str | None]
    "how long the earlier secrets sign: 0s to 720h; 24h if not given"
    reason: NotRequired[str | None]
    "why; kept in the audit"
    secret: NotRequired[str | None]
    "whsec_… or whsk_…; none: a new one is created, of the kind that there is"


class NewScenario(TypedDict):
    duration: NotRequired[str | None]
    "how long events arrive; until the outage ends if not given"
    keys: NotRequired[int | None]
    "number of ordering keys of the events; 0: no order"
    outage: NewScenarioOutage
    policy: NotRequired[str | InlinePolicy | None]
    "the name of a preset or of a policy of the tenant, or a policy"
    rate: NotRequired[str | NewScenarioRate1 | NewScenarioRate2 | NewScenarioRate3 | None]
    "how often events arrive: \"4/min\", \"10/s\" or {\"per_minute\":4}"
    seed: NotRequired[int | None]


class NewScenarioOutage(TypedDict):
    after: NotRequired[str | None]
    "from the first event"
    duration: str
    error_rate: NotRequired[float | None]
    "the part of the attempts that fail; required by flaky"
    kind: NotRequired[Literal['down', 'flaky', 'slow', 'status', None]]
    latency: NotRequired[str | None]
    "how long every answer takes; required by slow"
    status: NotRequired[int | None]
    "of every answer; required by status"


class NewScenarioRate1(TypedDict):
    per_second: float


class NewScenarioRate2(TypedDict):
    per_minute: float


class NewScenarioRate3(TypedDict):
    per_hour: float


class NewSettlement(TypedDict):
    acks: NotRequired[list[str] | None]
    "leases; at most 1000 in all"
    nacks: NotRequired[list[Settlement] | None]
    rejects: NotRequired[list[Rejection] | None]


class NewSkip(TypedDict):
    reason: str
    "the delivery's reason, also in the audit"


class NewSource(TypedDict):
    broker: NotRequired[Target | None]
    "instead of verify: events are the messages of this broker; then only description, type, key, event_id, tls and status apply, and the expressions see headers, data, and the broker's own type and key"
    dedupe: NotRequired[DedupeSettings | None]
    "how repeated requests are recognised"
    description: NotRequired[str | None]
    event_id: NotRequired[str | None]
    "a CEL expression over the body that gives the provider's id of the event, such as event.data.id; none: the provider's own field, if it has one"
    key: NotRequired[str | None]
    "a CEL expression that gives the ordering key; none: the provider's own field, if it has one"
    max_body: NotRequired[int | None]
    "bytes of a request's body; the server's limit if not given"
    name: str
    "name for operators, unique within the tenant"
    on_unverified: NotRequired[Literal['reject', 'quarantine', None]]
    "reject: 401, and nothing is stored; quarantine: 202, stored for people to see and never delivered; reject if not given"
    outbox: NotRequired[OutboxSettings | None]
    "instead of verify: events are read from a producer's outbox; then only description and status apply"
    public_url: NotRequired[str | None]
    "URL that the provider calls, for signatures that cover it; none: below the server's --public-url, or the URL of the request"
    rate_limit: NotRequired[RateLimit | None]
    "requests beyond it get 429, counted by each node for itself; none: no limit"
    status: NotRequired[Literal['enabled', 'paused', None]]
    "paused: requests get 503, so that the provider keeps and repeats them; enabled if not given"
    tenant: NotRequired[str | None]
    "the key's tenant, else default"
    tls: NotRequired[TLS | None]
    "of the connections to the broker"
    type: NotRequired[str | None]
    "a CEL expression that gives the event's type; none: the provider's own field"
    verify: NotRequired[VerifySettings | None]
    "how requests are verified; required without an outbox or a broker"


class NewSourceRotation(TypedDict):
    overlap: NotRequired[str | None]
    "how long the earlier secrets are valid: 0s to 720h; 24h if not given"
    reason: NotRequired[str | None]
    "why; kept in the audit"
    secret: str
    "the new secret, 8 bytes or more"


class NewTenant(TypedDict):
    labels: NotRequired[dict[str, str] | None]
    "marks of your own; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"
    name: str
    "what people call it"
    tenant: NotRequired[str | None]
    "its name in requests and keys; none: one that begins with ten_ is created"


class NewTest(TypedDict):
    data: NotRequired[Any]
    "any JSON"
    delay: NotRequired[str | None]
    "the first attempt is not before this has passed: 0s to 24h; 0s if not given"
    id: NotRequired[str | None]
    "of the event whose dead letter is replayed; else not used: a test gets an id of its own"
    occurredAt: NotRequired[str | None]
    "not used; as the preset parseo writes it"
    timestamp: NotRequired[str | None]
    "not used"
    type: NotRequired[str | None]
    "grapnel.test if not given"


class NewTypeVersion(TypedDict):
    example: NotRequired[Any]
    "data that satisfy the schema"
    note: NotRequired[str | None]
    "changes of this version, for people"
    schema: Any
    "JSON Schema 2020-12 of the events' data, at most 64 KiB; references begin with #"


class NextQuery(TypedDict):
    wait: NotRequired[str]
    "how long to wait for a message, 0s to 60s; 0s if not given"
    max: NotRequired[int]
    "most messages, 1 to 100; 1 if not given. If given, the answer is a list"
    consumer: NotRequired[str]
    "who asks, up to 64 characters; also as the header Grapnel-Consumer; the API key's id if not given"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class OAuth2(TypedDict):
    audience: NotRequired[str | None]
    "a parameter that some token servers want"
    client_id: str
    client_secret: str
    "[redacted] in answers; an update that moves token_url gives it again"
    scopes: NotRequired[list[str] | None]
    token_url: NotRequired[str | None]
    "address of the token server; it must be as public as the endpoint's own. An update that sets it to null removes the client"


class OAuth2Patch(TypedDict):
    audience: NotRequired[str | None]
    "a parameter that some token servers want"
    client_id: NotRequired[str]
    client_secret: NotRequired[str]
    "[redacted] in answers; an update that moves token_url gives it again"
    scopes: NotRequired[list[str] | None]
    token_url: NotRequired[str | None]
    "address of the token server; it must be as public as the endpoint's own. An update that sets it to null removes the client"


class Outbox(TypedDict):
    detail: str
    "reason, if it does not relay"
    events: int
    "events relayed since this server was started"
    lag: str
    "age of the oldest event that is not relayed; an upper bound while it is unreachable"
    last_event_at: str | None
    "time of the last relayed event since this server was started"
    place: str
    "where the outbox or the broker is, without secrets"
    seen_at: str | None
    "time of this server's last read"
    set_aside: int
    "events set aside because they are invalid; they are in the inbox"
    since: str | None
    state: Literal['paused', 'connecting', 'relaying', 'standby', 'held', 'away']
    "relaying: the relay works; standby: another server relays; held: the server accepts no events at the moment; away: the database or the broker cannot be used"


class OutboxPatch(TypedDict):
    dsn: NotRequired[str | None]
    "how to connect to the producer's database: postgres://user:password@host:5432/database, mysql://user:password@host:3306/database, or sqlite:/path of a file of --outbox-file; required when there is none yet"


class OutboxSettings(TypedDict):
    dsn: NotRequired[str | None]
    "how to connect to the producer's database: postgres://user:password@host:5432/database, mysql://user:password@host:3306/database, or sqlite:/path of a file of --outbox-file; required when there is none yet"


class Overview(TypedDict):
    ahead: list[Ahead]
    "attempts scheduled in the next 24 hours: twelve parts of five minutes, then 23 of an hour. Deliveries that an endpoint's state holds are not in it"
    ahead_later: int
    "attempts scheduled after that"
    attention: list[OverviewEndpoint]
    "endpoints that are not healthy, the worst first, at most 50"
    dead_letters: DeadLetterCount
    endpoints: EndpointStates
    hours: list[Bucket]
    "the same by the hour, the oldest first; hours in which nothing happened are left out"
    hours_from: str
    "start of the first hour that hours covers"
    oldest_pending_at: str | None
    "creation of the oldest pending delivery; null: nothing is pending. With pending.more, of the oldest that was counted"
    pending: PendingStates
    refuses: str | None
    "why new events are refused right now, as /readyz says it; null: they are accepted"
    totals: Totals
    "deliveries and attempts of the last 24 hours"


class OverviewEndpoint(TypedDict):
    description: str
    disabled_reason: str
    health: Health
    "held is exact here"
    id: str
    tenant: str
    url: str


class OverviewQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class PauseQueueQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class PeekQuery(TypedDict):
    limit: NotRequired[int]
    "most messages, 1 to 100; 10 if not given"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class Peeked(TypedDict):
    body: Any
    body_base64: NotRequired[str]
    meta: PeekedMeta


class PeekedList(TypedDict):
    data: list[Peeked]
    next: str | None
    "always null"


class PeekedMeta(TypedDict):
    attempt: int
    "attempt number of its next or current lease"
    content_type: str
    delivery_id: str
    due_at: str
    "when it can be leased; of a leased message, the end of the lease"
    event_id: str
    first_seen_at: str
    key: str | None
    type: str


class Peer(TypedDict):
    address: NotRequired[str]
    "IP address"
    certificate: NotRequired[str]
    "the first 8 bytes of its SHA-256, in hexadecimal"
    certificate_until: NotRequired[str]
    "end of its validity"


class PendingStates(TypedDict):
    all: int
    "exact: the sum of the others, if more is false"
    held: int
    "held by an endpoint's open circuit, pause or disablement, or by the end of their schedule"
    leased: int
    "messages of queues that consumers lease"
    more: bool
    "not all were counted by what they wait for: each number but all, and each of ahead, is a lower bound"
    ready: int
    "due now"
    scheduled: int
    "due later"
    waiting: int
    "behind the head of their key; 0 if more is true"


class Phases(TypedDict):
    body: NotRequired[str]
    connect: NotRequired[str]
    dns: NotRequired[str]
    first_byte: NotRequired[str]
    "from the request written to the first byte of the response"
    reused: bool
    "over a connection that was already open"
    tls: NotRequired[str]


class Plan(TypedDict):
    by_status: ByStatus
    "total, by the status of the originals"
    dry_run: bool
    excluded: Excluded
    keys: int
    "number of different keys"
    longest_chain: int
    "most deliveries of one key; they arrive one after the other"
    overtaken: int
    "of total: a newer delivery of their key succeeded since, so they arrive after it"
    partial: bool
    "the count was cut short: the numbers are minimums"
    total: int
    "deliveries that it would create"
    waiting: int
    "pending and held deliveries that match otherwise: they are on their way and are not replayed; at most 10000 are counted"


class Planned(TypedDict):
    at: str
    latest: str
    "the latest that jitter can put it"
    number: int


class Point(TypedDict):
    arrived: int
    at: str
    attempts: int
    backlog: int
    healthy: bool


class Policy(TypedDict):
    breaker: NotRequired[PolicyBreaker0 | Literal[False] | None]
    "false: none; null: the default one"
    classify: NotRequired[dict[str, Literal['retry', 'fail', 'throttle', 'disable']]]
    "statuses (404, 4xx) and error classes (timeout) to decisions"
    disable: NotRequired[PolicyDisable]
    jitter: NotRequired[float | PolicyJitter1]
    "added to each wait, never subtracted: a fraction of it, or up to a fixed time"
    limits: NotRequired[list[PolicyLimitsItem]]
    "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)"
    max_age: NotRequired[str | None]
    "from the first attempt; null: no limit"
    max_attempts: NotRequired[int | None]
    "null: no limit"
    name: NotRequired[str]
    on_exhausted: NotRequired[Literal['dead_letter', 'discard']]
    preset: NotRequired[str]
    "its base: a preset or a policy of the tenant, from which the fields come that are left out; default if not given"
    retry_after: NotRequired[Literal['extend', 'ignore']]
    "extend: a receiver's Retry-After may lengthen a wait, never shorten it"
    schedule: NotRequired[PolicySchedule0 | PolicySchedule1]
    shape: NotRequired[Literal['default', 'standard', 'parseo', 'paylera', 'paylera-24h', 'sent', 'webhookify', 'queue', 'hooque', 'svix']]
    "the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"
    success: NotRequired[list[str]]
    then: NotRequired[Literal['advance', 'block']]
    "after an exhausted delivery the key advances or blocks"
    timeout: NotRequired[str]
    "of one attempt: connecting, sending, the whole answer"


class PolicyBreaker0(TypedDict):
    failures: NotRequired[int]
    probe: NotRequired[str]
    probe_max: NotRequired[str]
    ratio: NotRequired[float]
    window: NotRequired[str]


class PolicyDisable(TypedDict):
    after: NotRequired[str]
    "0s: never"
    consecutive: NotRequired[int]
    "0: never"
    of: NotRequired[Literal['status_4xx', 'status_5xx', 'timeout', 'connect', 'dns', 'tls', 'reset', 'protocol', 'redirect']]
    pending: NotRequired[Literal['hold', 'drop']]


class PolicyJitter1(TypedDict):
    add: str


class PolicyLimitsItem(TypedDict):
    attempts: int
    "all attempts of the delivery count, whatever they were answered"
    codes: list[str]
    within: NotRequired[str]
    "from the first attempt"


class PolicyPatch(TypedDict):
    breaker: NotRequired[PolicyPatchBreaker0 | Literal[False] | None]
    "false: none; null: the default one"
    classify: NotRequired[dict[str, Literal['retry', 'fail', 'throttle', 'disable', None]] | None]
    "statuses (404, 4xx) and error classes (timeout) to decisions"
    disable: NotRequired[PolicyPatchDisable | None]
    jitter: NotRequired[float | PolicyPatchJitter1 | None]
    "added to each wait, never subtracted: a fraction of it, or up to a fixed time"
    limits: NotRequired[list[PolicyPatchLimitsItem] | None]
    "after an answer with one of the codes, narrower max_attempts (attempts) and max_age (within)"
    max_age: NotRequired[str | None]
    "from the first attempt; null: no limit"
    max_attempts: NotRequired[int | None]
    "null: no limit"
    name: NotRequired[str]
    on_exhausted: NotRequired[Literal['dead_letter', 'discard', None]]
    preset: NotRequired[str | None]
    "its base: a preset or a policy of the tenant, from which the fields come that are left out; default if not given"
    retry_after: NotRequired[Literal['extend', 'ignore', None]]
    "extend: a receiver's Retry-After may lengthen a wait, never shorten it"
    schedule: NotRequired[PolicyPatchSchedule | None]
    shape: NotRequired[Literal['default', 'standard', 'parseo', 'paylera', 'paylera-24h', 'sent', 'webhookify', 'queue', 'hooque', 'svix', None]]
    "the preset whose headers, transform, format and ordering apply where the endpoint sets none; that of its base if not given"
    success: NotRequired[list[str] | None]
    then: NotRequired[Literal['advance', 'block', None]]
    "after an exhausted delivery the key advances or blocks"
    timeout: NotRequired[str | None]
    "of one attempt: connecting, sending, the whole answer"


class PolicyPatchBreaker0(TypedDict):
    failures: NotRequired[int | None]
    probe: NotRequired[str | None]
    probe_max: NotRequired[str | None]
    ratio: NotRequired[float | None]
    window: NotRequired[str | None]


class PolicyPatchDisable(TypedDict):
    after: NotRequired[str | None]
    "0s: never"
    consecutive: NotRequired[int | None]
    "0: never"
    of: NotRequired[Literal['status_4xx', 'status_5xx', 'timeout', 'connect', 'dns', 'tls', 'reset', 'protocol', 'redirect', None]]
    pending: NotRequired[Literal['hold', 'drop', None]]


class PolicyPatchJitter1(TypedDict):
    add: NotRequired[str | None]


class PolicyPatchLimitsItem(TypedDict):
    attempts: int
    "all attempts of the delivery count, whatever they were answered"
    codes: list[str]
    within: NotRequired[str]
    "from the first attempt"


class PolicyPatchSchedule(TypedDict):
    base: NotRequired[str | None]
    "the wait before attempt 2"
    delays: NotRequired[list[str] | None]
    "one per attempt; the first is the wait before attempt 1"
    factor: NotRequired[float | None]
    max: NotRequired[str | None]
    "longest wait"
    mode: NotRequired[Literal['since_previous', 'since_first', 'exponential', None]]
    tail: NotRequired[Literal['stop', 'repeat', None]]
    "stop after the table, or repeat its last wait"


class PolicySchedule0(TypedDict):
    delays: list[str]
    "one per attempt; the first is the wait before attempt 1"
    mode: NotRequired[Literal['since_previous', 'since_first']]
    "start of the count of a delay"
    tail: NotRequired[Literal['stop', 'repeat']]
    "stop after the table, or repeat its last wait"


class PolicySchedule1(TypedDict):
    base: str
    "the wait before attempt 2"
    factor: NotRequired[float]
    max: NotRequired[str]
    "longest wait"
    mode: NotRequired[Literal['exponential']]


class Portal(TypedDict):
    accent: str | None
    frame_ancestors: list[str]
    logo: str | None
    name: str | None
    tenant: str
    updated_at: NotRequired[str]


class PortalLink(TypedDict):
    expires_at: str
    "until when it can be opened"
    id: str
    "names the link, and the session that it opens, to end them before their time; no secret"
    url: str
    "secret: it opens the portal for its first user. Its code stands after the #, which browsers send to no server"


class PortalPatch(TypedDict):
    accent: NotRequired[str | None]
    "colour of buttons and of the selected page"
    frame_ancestors: NotRequired[list[str] | None]
    "origins of pages that may show the portal in a frame, such as https://app.example.com; none: no page"
    logo: NotRequired[str | None]
    "a data: URL of a PNG, JPEG or WebP of at most 12 KiB"
    name: NotRequired[str | None]
    "stands in the place of Grapnel's name"


PortalSession = TypedDict("PortalSession", {
    "expires_at": "str",
    "pass": "str",
})


class Preview(TypedDict):
    endpoints: list[PreviewEndpoint]
    "endpoints and queues of the event's tenant, by id"
    more: bool
    "the tenant has more endpoints than were looked at"
    request: PreviewRequest | None
    "the request that the endpoint named by ?endpoint would get; null: none was named"


class PreviewEndpoint(TypedDict):
    id: str
    name: str
    "its description; for a queue its name"
    reason: str
    "why it would get the event, or why not; a sentence"
    wanted: bool


class PreviewEventQuery(TypedDict):
    endpoint: NotRequired[str]
    "the endpoint whose request is shown"


class PreviewRequest(TypedDict):
    body: str
    "the bytes, as text"
    headers: dict[str, str]
    method: str
    signed: str
    "the bytes that the signature covers: id, timestamp and body, joined by dots"
    url: str


class Problem(TypedDict):
    code: str
    "the kind of problem, for programs"
    detail: str
    "the fault of this request"
    errors: list[Fault]
    "the fields at fault, if there are any"
    request_id: str
    "also in X-Request-Id; look for it in the server's log"
    status: int
    title: str
    "title of the code"
    type: str
    "a reference to the description of this kind of problem"


class Promise(TypedDict):
    bad: int
    budget_left: float
    "part of the budget that is left; below 0: more than all of it is used up"
    budget_time: str | None
    "the whole budget as a time in which everything fails"
    burn_rate: float
    "how many times too fast the budget was used up over the last day"
    burns: list[PromiseBurn]
    days: list[PromiseDay]
    "of the window, in UTC, the oldest first"
    good: int
    name: Literal['availability', 'freshness', 'arrival', 'no_loss']
    objective: float
    "share that is promised; 0: shown and not promised"
    says: str
    "what the objective is a share of"
    sentence: str
    "the same in words"
    state: Literal['kept', 'burning', 'broken', 'few', 'informative']
    "burning: an alert about the budget fires; few: too few events to judge"
    title: str
    until: str | None
    "when nothing is left at this rate; null: not within the window"


class PromiseBurn(TypedDict):
    events: int
    "in the short window; fewer than 100 never fire"
    fires: bool
    long: str
    long_ratio: float
    rate: float
    "times too fast"
    severity: Literal['page', 'ticket']
    short: str
    short_ratio: float
    threshold: float
    "share of bad events"


class PromiseDay(TypedDict):
    bad: int
    date: str
    gaps: int
    "slots of five minutes in which no node measured anything"
    good: int


class PromiseLatency(TypedDict):
    of: Literal['accept', 'receive', 'dispatch', 'arrive']
    "accept: answering a publish; receive: answering a request to a source; dispatch: from commit to attempt; arrive: from commit to 2xx"
    p50: str | None
    p95: str | None
    p99: str | None


class Provider(TypedDict):
    checked: str | None
    "day of the last comparison with the provider's documentation"
    docs: str | None
    ids_signed: bool
    "false: the signature does not cover the ids; receiving.md says what follows for each provider"
    retries: str
    "the same in words"
    retries_for: str | None
    "how long it retries; null: it does not, or unknown"
    signature: str
    "place of the signature, and the text that it covers"
    title: str


class PublishRawQuery(TypedDict):
    type: NotRequired[str]
    "the event's type"
    key: NotRequired[str]
    "the ordering key"
    aggregate_type: NotRequired[str]
    "with aggregate_id instead of key"
    aggregate_id: NotRequired[str]
    id: NotRequired[str]
    "makes publishing idempotent"
    tenant: NotRequired[str]
    "tenant that owns the event"
    occurred_at: NotRequired[str]
    "when it happened"
    deliver_at: NotRequired[str]
    "when its deliveries begin; later events of its key wait behind it"


class Published(TypedDict):
    accepted_at: str
    deliveries: int
    "number of endpoints that get it"
    duplicate: bool
    "an event with this id and content exists already; nothing was created"
    id: str


class PublishedBatch(TypedDict):
    data: list[Any]
    "one result or problem per event, in the order given"


class Purge(TypedDict):
    discarded: int
    "deliveries that were in the queue"


class PurgeQueueQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class Queue(TypedDict):
    blocked: NotRequired[int]
    "its key waits for an operator"
    consumers: NotRequired[list[Consumer]]
    "consumers of the last day, or with leases; only for a single queue"
    created_at: str
    dead: NotRequired[int]
    "dead letters: neither discarded nor delivered again"
    delayed: NotRequired[int]
    "due later, after a nack or by the policy"
    description: str
    disabled_at: str | None
    disabled_reason: str | None
    event_types: list[str]
    "patterns in which a whole segment may be *; none: every type"
    filter: str | None
    "a CEL expression over event (type, key, data, metadata)"
    id: str
    lease: str
    "duration of a lease, 1s to 12h; 30s if not given"
    leased: NotRequired[int]
    max_leased: int
    "leases that one consumer may hold at once; 1000 if not given"
    name: str
    "name for consumers: [A-Za-z0-9_-], not in the form of a queue's id; unique within the tenant"
    oldest_age: NotRequired[str]
    "age of the oldest unfinished message; absent: none"
    oldest_at: NotRequired[str]
    "when the oldest was accepted"
    ordering: Literal['key', 'none', None]
    "none: events of one key do not wait for each other; that of the policy's preset if not given, else key"
    policy: str | Policy
    "the name of a preset or of a policy of the tenant, or a policy"
    policy_changes: list[str]
    "fields of its own policy that differ from the one that policy.preset names; a named policy has none"
    quiet: bool
    "only its consumers notice it: no webhook_endpoint.* events are about it, no statistics count it, and a delivery that would be a dead letter or block its key is discarded; false if not given"
    ready: NotRequired[int]
    "due and not leased; this and the counts below may be rough above 10000"
    revision: int
    "grows with every change"
    source: str | None
    "the id of a source: only events that it received; none: events of any origin"
    status: Literal['enabled', 'paused', 'disabled']
    "paused: nothing is leased; enabled if not given"
    tenant: str
    "the key's tenant, else default"
    updated_at: str
    waiting: NotRequired[int]
    "held behind another message of its key"


class QueuePatch(TypedDict):
    description: NotRequired[str | None]
    event_types: NotRequired[list[str] | None]
    "patterns in which a whole segment may be *; none: every type"
    filter: NotRequired[str | None]
    "a CEL expression over event (type, key, data, metadata)"
    lease: NotRequired[str | None]
    "duration of a lease, 1s to 12h; 30s if not given"
    max_leased: NotRequired[int | None]
    "leases that one consumer may hold at once; 1000 if not given"
    name: NotRequired[str]
    "name for consumers: [A-Za-z0-9_-], not in the form of a queue's id; unique within the tenant"
    ordering: NotRequired[Literal['key', 'none', None]]
    "none: events of one key do not wait for each other; that of the policy's preset if not given, else key"
    policy: NotRequired[str | InlinePolicyPatch | None]
    "the name of a policy, or a policy; none: the preset queue"
    quiet: NotRequired[bool | None]
    "only its consumers notice it: no webhook_endpoint.* events are about it, no statistics count it, and a delivery that would be a dead letter or block its key is discarded; false if not given"
    source: NotRequired[str | None]
    "the id of a source: only events that it received; none: events of any origin"
    status: NotRequired[Literal['enabled', 'paused', 'disabled', None]]
    "paused: nothing is leased; enabled if not given"


QuietHours = TypedDict("QuietHours", {
    "from": "str",
    "to": "str",
    "tz": "NotRequired[str | None]",
})


QuietHoursPatch = TypedDict("QuietHoursPatch", {
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "tz": "NotRequired[str | None]",
})


class RateLimit(TypedDict):
    burst: NotRequired[int | None]
    "one second's worth if not given"
    per_second: float


class RateLimitPatch(TypedDict):
    burst: NotRequired[int | None]
    "one second's worth if not given"
    per_second: NotRequired[float]


class ReadFeedQuery(TypedDict):
    endpoint: NotRequired[str]
    "an endpoint's id"
    after: NotRequired[str]
    "next of the last page; not given: from the oldest event that is stored"
    limit: NotRequired[int]
    "how many events at most: 1 to 500, 50 if not given"
    wait: NotRequired[str]
    "how long to wait for an event, 0s to 60s; 0s if not given"


class Reason(TypedDict):
    count: int
    name: str
    "a class, or a reason code"
    of: Literal['attempts', 'deliveries']
    "whether attempts or deliveries are counted"
    retried: int
    "of attempts: those after which the delivery stayed pending"


class Received(TypedDict):
    conflict: NotRequired[bool]
    "with duplicate: the first request had another body"
    duplicate: bool
    id: str
    "id of the event, or of the quarantined request"


class Refusals(TypedDict):
    last_at: str
    last_hour: int
    "number in the last hour"
    last_reason: str
    last_status: int
    "status of the answer, such as 401"


class Rejection(TypedDict):
    lease: str
    reason: NotRequired[str | None]


class Released(TypedDict):
    conflicts: int
    "the same with another body; they are in the inbox"
    duplicates: int
    "requests that repeat an event"
    events: int
    quarantined: int
    "the secret does not verify them, so they stay in quarantine"


class Replay(TypedDict):
    canary: bool
    delivered: int
    done: int
    "of the created ones: finished"
    endpoint_id: str
    endpoint_name: str | None
    "name of the endpoint, queue or channel: its description, else its URL without scheme and query; null: it is deleted"
    eta: str | None
    "when it finishes at its measured speed; null: nothing is measured yet, or its end does not depend on its speed"
    failed: int
    "finished, and not delivered"
    finished_at: str | None
    id: str
    made: int
    "created so far"
    rate: float
    "most deliveries created per second"
    reason: str | None
    "why it is paused, was cancelled or stopped, or is stuck"
    selection: Selection
    started_at: str
    started_by: str
    "the id of an API key"
    status: Literal['running', 'paused', 'completed', 'cancelled', 'stopped']
    "stopped: too many failures in a row, or the canary failed"
    stop_after: int | None
    "stops after this number of failures in a row; null: never"
    tenant: str
    total: int
    "deliveries to create, as counted at the start; those created, if they are more"
    updated_at: str


class Report(TypedDict):
    affected: int
    attempts: int
    attempts_per_event: float
    blocked: int
    by_schedule: Comparison
    dead_letters: int
    delivered: int
    disabled_after: str
    discarded: int
    drained_after: str
    dropped: int
    events: int
    extra_wait: Wait
    held: int
    noticed_after: str
    opened: int
    peak_backlog: int
    policy: str
    probes: int
    recovery_peak: int
    series: list[Point] | None
    survives: str


class ResumeQueueQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class Retried(TypedDict):
    more: bool
    "there were too many for one call: repeat it"
    probe: bool
    "the circuit is open, so one delivery probes the endpoint; the others follow if it succeeds"
    retried: int
    "deliveries that were made due now; those held behind them follow"


class RetriedFound(TypedDict):
    matched: int
    "pending and held deliveries that were found"
    next: str | None
    "cursor of those that were not looked at yet; null: there are none"
    probed: int
    "endpoints with an open circuit, which one delivery each probes"
    retried: int
    "deliveries that were made due now; those held behind them follow"


RetryDeliveriesQuery = TypedDict("RetryDeliveriesQuery", {
    "status": "NotRequired[list[Literal['pending', 'held', 'delivered', 'failed', 'dropped', 'discarded', 'skipped']]]",
    "type": "NotRequired[str]",
    "key": "NotRequired[str]",
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "reason_code": "NotRequired[Literal['exhausted', 'permanent', 'rejected', 'expired', 'endpoint_gone', 'damaged', 'erased']]",
    "error_class": "NotRequired[Literal['dns', 'connect', 'tls', 'timeout', 'reset', 'protocol', 'redirect', 'blocked', 'status_3xx', 'status_4xx', 'status_429', 'status_5xx', 'nack', 'reject', 'lease_over', 'proxy', 'token', 'none']]",
    "status_code": "NotRequired[int]",
    "text": "NotRequired[str]",
    "filter": "NotRequired[str]",
    "endpoint": "NotRequired[str]",
    "limit": "NotRequired[int]",
    "cursor": "NotRequired[str]",
})


class RevealedSecret(TypedDict):
    secret: str
    "whsec_… or whsk_…, the newest"


class RevokePortalLinksQuery(TypedDict):
    subject: NotRequired[str]
    "only links and sessions of this person, as the links named it"
    link: NotRequired[str]
    "only this link, and the session that it opened"
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class RotateSessionsQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class SLO(TypedDict):
    at: str
    "time of the last sample"
    latency: list[PromiseLatency]
    promises: list[Promise]
    since: str | None
    "when counting began; null: nothing was counted yet"
    window_days: int


class Secret(TypedDict):
    created_at: str
    expires_at: str | None
    public_key: str | None
    "whpk_…, for receivers, when the secret is an Ed25519 key"


Selection = TypedDict("Selection", {
    "again": "bool",
    "deliveries": "int | None",
    "error_class": "str | None",
    "event_types": "list[str]",
    "from": "str | None",
    "keys": "list[str]",
    "status": "list[str]",
    "status_code": "int | None",
    "to": "str | None",
})


class Sender(TypedDict):
    per_day: int | None
    "messages that the contacts of one tenant get on one day (UTC), the questions to confirm among them; none or 0: 20"
    scopes: list[Literal['read', 'replay', 'endpoints:write', 'secrets:reveal', 'payload:read', 'alerts:read']]
    "rights of the portal links in messages; none: read and replay. With endpoints:write a disabled endpoint can be enabled by it"
    subject: str | None
    "template of titles and of subjects of mails, with {subject}, {text}, {endpoint}, {stage}, {cause}, {since}, {failed}, {waiting}, {dead}, {tenant}; none: {subject}"
    text: str | None
    "template of texts, with the same; a link follows; none: {text}"
    updated_at: str | None
    "null: nothing was ever set"
    url: str | None
    "of the mail server, without recipients: smtp://user:password@host:587/?fromaddress=hooks@example.com&fromname=Acme; its password is not shown; none: nothing is sent to any contact"


class SenderPatch(TypedDict):
    per_day: NotRequired[int | None]
    "messages that the contacts of one tenant get on one day (UTC), the questions to confirm among them; none or 0: 20"
    scopes: NotRequired[list[Literal['read', 'replay', 'endpoints:write', 'secrets:reveal', 'payload:read', 'alerts:read']] | None]
    "rights of the portal links in messages; none: read and replay. With endpoints:write a disabled endpoint can be enabled by it"
    subject: NotRequired[str | None]
    "template of titles and of subjects of mails, with {subject}, {text}, {endpoint}, {stage}, {cause}, {since}, {failed}, {waiting}, {dead}, {tenant}; none: {subject}"
    text: NotRequired[str | None]
    "template of texts, with the same; a link follows; none: {text}"
    url: NotRequired[str | None]
    "of the mail server, without recipients: smtp://user:password@host:587/?fromaddress=hooks@example.com&fromname=Acme; its password is not shown; none: nothing is sent to any contact"


class SentBody(TypedDict):
    attempt: int
    body: str | None
    "whole; null: there is none, or it is no text"
    body_base64: str | None
    "whole, if it is no text"
    bytes: int
    "length of the body"
    content_type: str
    "that was sent"
    delivery_id: str
    sentence: str
    "the verdict in words"
    sha256: str
    "of the body, in hexadecimal; empty without one"
    verdict: Literal['signed', 'unproved', 'not_rebuilt', 'not_sent']
    "signed: a signature that was sent covers these bytes; unproved: the secret of that time was rotated away; the others have no body"


class Service(TypedDict):
    status: Literal['ok', 'unavailable']
    version: str


class Setting(TypedDict):
    doc: str
    name: str
    "name of the flag, without its dashes"
    value: str
    "value in force, as the flag takes it; of a database its place, without user, password and parameters"


class Settings(TypedDict):
    settings: list[Setting]
    version: str


class Settled(TypedDict):
    failed: list[str]
    "leases whose outcome is unknown: settle them again"
    settled: int
    stale: list[str]
    "leases that had expired, were settled or are unknown"


class Settlement(TypedDict):
    delay: NotRequired[str | None]
    "time until it can be leased again, 0s to 24h; by the policy if not given"
    lease: str
    reason: NotRequired[str | None]


class SignatureCheck(TypedDict):
    attempt: int
    delivery_id: str
    sentence: str
    "the verdict in words"
    signatures: list[SignatureSent]
    "those of the header webhook-signature, in its order"
    signed: SignatureCheckSigned | None
    "the parts that the signature covers; null: they cannot be computed again"
    verdict: Literal['current', 'earlier', 'ended', 'none', 'not_rebuilt', 'not_sent']
    "the secret that makes a signature: the newest, an earlier one that still signs, one that has ended, none; or the reason for no comparison"


class SignatureCheckSigned(TypedDict):
    body: str | None
    "the first 16 KiB; null: the body is empty, or no text"
    body_bytes: int
    "length of the body"
    body_cut: bool
    "only the beginning of the body is shown"
    body_sha256: str
    "in hexadecimal"
    id: str
    timestamp: int
    "in seconds since 1970"


class SignatureSent(TypedDict):
    matches: str
    "the secret that makes it, by its number and when it was created; or none"
    secret: int | None
    "number of that secret among those of the endpoint; 1: the newest; null: none makes it"
    signature: str


class Source(TypedDict):
    broker: NotRequired[Target]
    "only with a broker"
    consumer: NotRequired[Outbox]
    "only with a broker: how it is read"
    created_at: str
    dedupe: NotRequired[Dedupe]
    "not with an outbox or a broker"
    description: str
    event_id: str | None
    id: str
    ingest_url: str | None
    "URL for the provider: a path on this server, or a complete URL with --public-url; null with an outbox or a broker"
    key: str | None
    max_body: int | None
    "null: the server's limit"
    name: str
    on_unverified: Literal['reject', 'quarantine']
    outbox: NotRequired[Outbox]
    "only with an outbox"
    provider: NotRequired[Provider]
    "not with an outbox or a broker"
    public_url: str | None
    rate_limit: SourceRateLimit | None
    refusals: NotRequired[Refusals]
    "refused requests at this node since its start; absent: none"
    released: NotRequired[Released]
    "only in the answer that sets the secret the source waited for; the requests that could not be looked at yet follow by themselves"
    revision: int
    "grows with every change"
    status: Literal['enabled', 'paused']
    tenant: str
    tls: NotRequired[TLS]
    "only with a broker"
    type: str | None
    unreachable: str | None
    "why the provider cannot reach ingest_url: no --public-url is set, and the server was asked at a loopback or private address; null: nothing speaks against it"
    updated_at: str
    verify: NotRequired[Verify]
    "not with an outbox or a broker"
    waits_for_secret: bool
    "the source has no secret yet: requests that only a secret could verify get 202 and are quarantined; the secret (rotate-secret, or PATCH of verify.secret) releases those that it verifies, as events"


class SourcePatch(TypedDict):
    broker: NotRequired[TargetPatch | None]
    "instead of verify: events are the messages of this broker; then only description, type, key, event_id, tls and status apply, and the expressions see headers, data, and the broker's own type and key"
    dedupe: NotRequired[DedupePatch | None]
    "how repeated requests are recognised"
    description: NotRequired[str | None]
    event_id: NotRequired[str | None]
    "a CEL expression over the body that gives the provider's id of the event, such as event.data.id; none: the provider's own field, if it has one"
    key: NotRequired[str | None]
    "a CEL expression that gives the ordering key; none: the provider's own field, if it has one"
    max_body: NotRequired[int | None]
    "bytes of a request's body; the server's limit if not given"
    name: NotRequired[str]
    "name for operators, unique within the tenant"
    on_unverified: NotRequired[Literal['reject', 'quarantine', None]]
    "reject: 401, and nothing is stored; quarantine: 202, stored for people to see and never delivered; reject if not given"
    outbox: NotRequired[OutboxPatch | None]
    "instead of verify: events are read from a producer's outbox; then only description and status apply"
    public_url: NotRequired[str | None]
    "URL that the provider calls, for signatures that cover it; none: below the server's --public-url, or the URL of the request"
    rate_limit: NotRequired[RateLimitPatch | None]
    "requests beyond it get 429, counted by each node for itself; none: no limit"
    status: NotRequired[Literal['enabled', 'paused', None]]
    "paused: requests get 503, so that the provider keeps and repeats them; enabled if not given"
    tls: NotRequired[TLSPatch | None]
    "of the connections to the broker"
    type: NotRequired[str | None]
    "a CEL expression that gives the event's type; none: the provider's own field"
    verify: NotRequired[VerifyPatch | None]
    "how requests are verified; required without an outbox or a broker"


class SourceRateLimit(TypedDict):
    burst: int
    "one second's worth if not given"
    per_second: float


class SourceSecret(TypedDict):
    created_at: str
    expires_at: str | None


Stats = TypedDict("Stats", {
    "all": "NotRequired[Figures]",
    "bucket": "Literal['minute', 'hour', 'day']",
    "by": "NotRequired[Literal['type', 'endpoint', 'tenant', 'reason', 'hour', 'day']]",
    "data": "list[Bucket]",
    "from": "str",
    "groups": "NotRequired[list[Group]]",
    "pending": "NotRequired[int]",
    "reasons": "NotRequired[list[Reason]]",
    "to": "str",
    "totals": "Totals",
})


StatsQuery = TypedDict("StatsQuery", {
    "tenant": "NotRequired[str]",
    "from": "NotRequired[str]",
    "to": "NotRequired[str]",
    "bucket": "NotRequired[Literal['hour', 'day']]",
    "by": "NotRequired[Literal['type', 'endpoint', 'tenant', 'reason', 'hour', 'day']]",
    "endpoint": "NotRequired[str]",
    "type": "NotRequired[str]",
    "groups": "NotRequired[int]",
})


class StatusComponent(TypedDict):
    days: list[StatusDay]
    good: str
    "share of 28 days; empty: nothing was measured"
    id: str
    name: str
    says: str
    state: Literal['operational', 'maintenance', 'degraded', 'outage', 'unknown']


class StatusDay(TypedDict):
    date: str
    says: str
    state: Literal['operational', 'maintenance', 'degraded', 'outage', 'unknown']


StatusIncident = TypedDict("StatusIncident", {
    "components": "list[str]",
    "from": "str",
    "id": "str",
    "impact": "str",
    "open": "bool",
    "status": "str",
    "title": "str",
    "to": "NotRequired[str]",
    "updates": "list[StatusUpdate]",
})


class StatusLatency(TypedDict):
    p50: str
    p95: str
    p99: str
    title: str


class StatusPage(TypedDict):
    at: str | None
    components: list[StatusComponent]
    detail: str
    events: Literal['accepted', 'refused']
    "new ones"
    incidents: list[StatusIncident]
    "the newest first"
    latency: list[StatusLatency]
    maintenance: list[StatusIncident]
    "planned or under way, the next first"
    promises: list[StatusPromise]
    state: Literal['operational', 'maintenance', 'degraded', 'outage', 'unknown']
    status: Literal['ok', 'unavailable']
    verdict: str
    version: str


class StatusPromise(TypedDict):
    budget: str
    kept: str
    left: float
    "part of the budget that is left"
    objective: str
    says: str
    state: Literal['operational', 'maintenance', 'degraded', 'outage', 'unknown']
    title: str


class StatusUpdate(TypedDict):
    at: str
    status: str
    text: str


class StreamQuery(TypedDict):
    consumer: NotRequired[str]
    "who asks, up to 64 characters; also as the header Grapnel-Consumer; the API key's id if not given"
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class Subject(TypedDict):
    id: str
    kind: str
    name: str


class TLS(TypedDict):
    ca: NotRequired[str | None]
    "certificates of the authorities that are trusted instead of the system's"
    client_cert: NotRequired[str | None]
    "the client certificate, and behind it those between it and its authority"
    client_key: NotRequired[str | None]
    "its private key, not encrypted; [redacted] in answers"


class TLSPatch(TypedDict):
    ca: NotRequired[str | None]
    "certificates of the authorities that are trusted instead of the system's"
    client_cert: NotRequired[str | None]
    "the client certificate, and behind it those between it and its authority"
    client_key: NotRequired[str | None]
    "its private key, not encrypted; [redacted] in answers"


class Target(TypedDict):
    address: NotRequired[str | None]
    "where the broker is, without credentials: redis:// or rediss://, nats:// or tls://, amqp:// or amqps://, kafka:// or kafka+ssl://, http:// or https:// for the others, then hosts with their ports. The second form is the one over TLS, which uses tls. It must be as public as an endpoint's URL"
    kind: Literal['redis', 'nats', 'rabbitmq', 'kafka', 'sqs', 'sns', 's3', 'pubsub']
    "redis: an entry of a stream; nats: a message of JetStream; rabbitmq: a message to an exchange; kafka: a record of a topic; sqs, sns: a message to a queue or topic of AWS; s3: an object, or a file of several; pubsub: a message to a topic of Google. A source reads all but sns and s3"
    name: NotRequired[str | None]
    "the stream's key, subject, exchange, topic, queue or object's key; a subject and an object's key may have placeholders as in headers. Of a source: the stream's key, stream, queue, topic or subscription"
    options: NotRequired[dict[str, str] | None]
    "of the kind: max_length of redis, stream of nats, routing_key of rabbitmq, sasl of kafka (plain, scram-sha-256, scram-sha-512), region of sqs, sns and s3, batch and batch_wait of s3. Of a source: consumer and subject of nats, group of redis, group and sasl of kafka, region of sqs"
    password: NotRequired[str | None]
    "or token, without a username; [redacted] in answers. An update that moves address gives it again"
    username: NotRequired[str | None]


class TargetPatch(TypedDict):
    address: NotRequired[str | None]
    "where the broker is, without credentials: redis:// or rediss://, nats:// or tls://, amqp:// or amqps://, kafka:// or kafka+ssl://, http:// or https:// for the others, then hosts with their ports. The second form is the one over TLS, which uses tls. It must be as public as an endpoint's URL"
    kind: NotRequired[Literal['redis', 'nats', 'rabbitmq', 'kafka', 'sqs', 'sns', 's3', 'pubsub']]
    "redis: an entry of a stream; nats: a message of JetStream; rabbitmq: a message to an exchange; kafka: a record of a topic; sqs, sns: a message to a queue or topic of AWS; s3: an object, or a file of several; pubsub: a message to a topic of Google. A source reads all but sns and s3"
    name: NotRequired[str | None]
    "the stream's key, subject, exchange, topic, queue or object's key; a subject and an object's key may have placeholders as in headers. Of a source: the stream's key, stream, queue, topic or subscription"
    options: NotRequired[dict[str, str | None] | None]
    "of the kind: max_length of redis, stream of nats, routing_key of rabbitmq, sasl of kafka (plain, scram-sha-256, scram-sha-512), region of sqs, sns and s3, batch and batch_wait of s3. Of a source: consumer and subject of nats, group of redis, group and sasl of kafka, region of sqs"
    password: NotRequired[str | None]
    "or token, without a username; [redacted] in answers. An update that moves address gives it again"
    username: NotRequired[str | None]


class Tenant(TypedDict):
    consent: Literal['off', 'required', None]
    "required: an endpoint with a new address gets nothing until the address has answered a challenge; none: --consent"
    created_at: str | None
    "when it was registered, or the first of its settings was set; null: never"
    labels: dict[str, str]
    "marks of your own, such as {\"plan\":\"gold\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"
    max_events_per_day: int | None
    "events that it may publish on one day (UTC); beyond it a publish is answered 429; none or 0: --max-events-per-day"
    max_pending: int | None
    "pending deliveries that it may have; none or 0: --max-pending"
    name: str | None
    "what people call it; none: nothing but its own name"
    numbers: TenantNumbers | None
    "null without numbers=true"
    proxy: str | None
    "URL of the forward proxy (CONNECT) of its endpoints that name none, and of its channels but for mails, at any address, with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"
    publish_rate: TenantPublishRate | None
    "events that it may publish, counted by each node for itself; beyond it a publish is answered 429; none: --max-publish-rate"
    tenant: str
    "its name"
    updated_at: str | None
    "when its settings last changed; null: all of them are the server's"


class TenantNumbers(TypedDict):
    active_at: str | None
    "the hour in which an attempt was recorded or a delivery finished last; null: none ever was"
    dead_letters: int
    dead_letters_more: bool
    "dead_letters is a lower bound"
    endpoints: EndpointStates
    pending: int
    "pending deliveries"


class TenantPublishRate(TypedDict):
    burst: int
    "one second's worth if not given"
    per_second: float


class TenantTermsPatch(TypedDict):
    consent: NotRequired[Literal['off', 'required', None]]
    "required: an endpoint with a new address gets nothing until the address has answered a challenge; none: --consent"
    labels: NotRequired[dict[str, str | None] | None]
    "marks of your own, such as {\"plan\":\"gold\"}; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"
    max_events_per_day: NotRequired[int | None]
    "events that it may publish on one day (UTC); beyond it a publish is answered 429; none or 0: --max-events-per-day"
    max_pending: NotRequired[int | None]
    "pending deliveries that it may have; none or 0: --max-pending"
    name: NotRequired[str | None]
    "what people call it; none: nothing but its own name"
    proxy: NotRequired[str | None]
    "URL of the forward proxy (CONNECT) of its endpoints that name none, and of its channels but for mails, at any address, with its port, and a user and password if it wants them; the password is [redacted] in answers; none: no proxy but the server's own"
    publish_rate: NotRequired[RateLimitPatch | None]
    "events that it may publish, counted by each node for itself; beyond it a publish is answered 429; none: --max-publish-rate"


class Thing(TypedDict):
    id: str
    "of a tenant: its name"
    kind: Literal['endpoint', 'queue', 'source', 'policy', 'event_type', 'tenant']
    name: str
    tenant: str


class Totals(TypedDict):
    attempted: int
    "finished deliveries that had at least one attempt"
    attempts: int
    delivered: int
    discarded: int
    dropped: int
    failed: int
    "became dead letters"
    failed_attempts: int
    "attempts that failed"
    first_attempt_success: int
    "first attempts that succeeded"
    first_attempts: int
    "first attempts that were made, whether or not their delivery is finished"
    latency: Latency
    "latency of answered attempts; exact to a fifth"
    retried: int
    "finished deliveries with more than one attempt"
    skipped: int
    tried_again: int
    "attempts after which the delivery stayed pending"


TypeComparison = TypedDict("TypeComparison", {
    "breaking": "bool",
    "differences": "list[TypeDifference]",
    "from": "int",
    "stricter": "bool",
    "to": "int",
})


class TypeDifference(TypedDict):
    breaking: bool
    "receivers that know the earlier version may get something new"
    pointer: str
    "JSON pointer into the later schema; into the earlier one, if the later has nothing there"
    stricter: bool
    "publishers that follow the earlier version may be refused"
    what: str
    "a sentence"


class TypeVersion(TypedDict):
    created_at: str
    deprecated_at: str | None
    "null: not deprecated"
    example: NotRequired[Any]
    "data that satisfy the schema; absent: none was given, or this is a list"
    note: str
    "changes of this version, for people"
    schema: NotRequired[Any]
    "JSON Schema 2020-12; lists of event types leave it out"
    version: int
    "1 for the first"


class TypeVersionPatch(TypedDict):
    deprecated: NotRequired[bool | None]
    "publishers shall follow a later version"
    note: NotRequired[str | None]
    "changes of this version, for people"


class UpdateAlertRuleQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none; without it, the operator's own rules, which hold for tenants that have not changed them"
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class UpdateChannelQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class UpdateContactSenderQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class UpdateEndpointQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class UpdateEventTypeQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class UpdateEventTypeVersionQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"


class UpdateQueueQuery(TypedDict):
    tenant: NotRequired[str]
    "a tenant, for keys that are bound to none"
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class UpdateSourceQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class UpdateTenantQuery(TypedDict):
    reason: NotRequired[str]
    "reason for the audit; at most 500 characters"


class Verify(TypedDict):
    algorithm: str | None
    encoding: str | None
    header: str | None
    id_header: str | None
    prefix: str | None
    scheme: str
    secrets: list[SourceSecret]
    "valid secrets, newest first"
    signed: str | None
    timestamp_header: str | None
    tolerance: str | None
    "null: no timestamp is signed"
    type_header: str | None
    username: str | None


class VerifyPatch(TypedDict):
    algorithm: NotRequired[Literal['sha1', 'sha256', 'sha512', None]]
    encoding: NotRequired[Literal['hex', 'base64', None]]
    "encoding of the signature"
    header: NotRequired[str | None]
    "header with the signature or key"
    id_header: NotRequired[str | None]
    prefix: NotRequired[str | None]
    "text before the signature in its header, such as sha256="
    scheme: NotRequired[Literal['adyen', 'api_key', 'basic', 'discord', 'github', 'gitlab', 'hmac', 'linear', 'mailgun', 'none', 'paddle', 'sendgrid', 'shopify', 'slack', 'standard', 'stripe', 'svix', 'twilio', 'zendesk', 'zoom']]
    "signature scheme: stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …"
    secret: NotRequired[str | None]
    "secret shared with the provider, 8 bytes or more; for hmac, hex:… and base64:… give the bytes. A source whose scheme signs may be created without: it waits for its secret"
    secrets: NotRequired[list[str] | None]
    "instead of secret: several, newest first; a signature by any of them is valid"
    signed: NotRequired[str | None]
    "the signed text: {body}, {timestamp}, {id}, {url} and the characters between them"
    timestamp_header: NotRequired[str | None]
    tolerance: NotRequired[str | None]
    "how old a signed timestamp may be, and how far ahead; 5m if not given"
    type_header: NotRequired[str | None]
    username: NotRequired[str | None]
    "for basic"


class VerifySettings(TypedDict):
    algorithm: NotRequired[Literal['sha1', 'sha256', 'sha512', None]]
    encoding: NotRequired[Literal['hex', 'base64', None]]
    "encoding of the signature"
    header: NotRequired[str | None]
    "header with the signature or key"
    id_header: NotRequired[str | None]
    prefix: NotRequired[str | None]
    "text before the signature in its header, such as sha256="
    scheme: Literal['adyen', 'api_key', 'basic', 'discord', 'github', 'gitlab', 'hmac', 'linear', 'mailgun', 'none', 'paddle', 'sendgrid', 'shopify', 'slack', 'standard', 'stripe', 'svix', 'twilio', 'zendesk', 'zoom']
    "signature scheme: stripe, github, shopify, slack, twilio, standard, svix, hmac, basic, api_key, none, …"
    secret: NotRequired[str | None]
    "secret shared with the provider, 8 bytes or more; for hmac, hex:… and base64:… give the bytes. A source whose scheme signs may be created without: it waits for its secret"
    secrets: NotRequired[list[str] | None]
    "instead of secret: several, newest first; a signature by any of them is valid"
    signed: NotRequired[str | None]
    "the signed text: {body}, {timestamp}, {id}, {url} and the characters between them"
    timestamp_header: NotRequired[str | None]
    tolerance: NotRequired[str | None]
    "how old a signed timestamp may be, and how far ahead; 5m if not given"
    type_header: NotRequired[str | None]
    username: NotRequired[str | None]
    "for basic"


class Wait(TypedDict):
    max: str
    p50: str
    p95: str
