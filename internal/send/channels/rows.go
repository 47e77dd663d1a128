package channels

// row is a service: how its URLs are read, and which request an alert becomes.
type row struct {
	Service
	ways     []way
	pasted   []way             // of URLs as the service shows them; url is the same in the form of ways, host "{host}" means any
	defaults map[string]string // values that a URL may leave out
	checks   map[string]check
	ignored  []string // parameters that only decorate messages, in lower case
	passes   bool     // parameters that are not known here go to the service
	mail     bool
	closes   bool // see Closes
	method   string
	form     bool
	body     string // jq, after prelude
	answer   string // jq; see Target.Answer
}

// check is the form of one value.
type check struct{ pattern, wrong string }

// Checks of ids.
var (
	number  = check{`^[0-9]{1,32}$`, "has an id that is no number"}
	oneChat = check{`^(@[A-Za-z0-9_]{4,64}|-?[0-9]{1,20})(:[0-9]{1,10})?$`,
		"must name one chat in chats: @channel, chat-id or chat-id:thread-id; make a channel for each, so that each is retried by itself"}
)

// decorations are parameters of shoutrrr that change how a message looks. Alerts look the same
// everywhere, so they are ignored.
var decorations = []string{"title", "color", "icon", "botname", "username", "avatar", "avatarurl", "preview", "parsemode", "splitlines",
	"colordebug", "colorinfo", "colorwarn", "colorerror", "notification", "threadts"}

// prelude are the words in which the bodies of all rows are written. d is the alert. No text of an
// alert has a meaning to a service: calm takes it from mentions, and from the brackets of links in
// Markdown, whose words would hide where they lead; each row escapes what else its service reads.
const prelude = `. as $in |
def cut($n): if length > $n then .[:$n-1] + "…" else . end;
def swap($a; $b): split($a) | join($b);
def calm: swap("@"; "@\u200b") | swap("]"; "]\u200b");
def d: (if ($in.data|type) == "object" then $in.data else {} end);
def over: d.state == "resolved";
def sev: d.severity // "info";
def pick($page; $warning; $info): if sev == "page" then $page elif sev == "warning" then $warning else $info end;
def plain: d.plain == true;
def mark: if plain then "" elif over then "🟢" elif d.state == "digest" then "📋" elif d.state == "test" then "🔔" else pick("🔴"; "🟠"; "🔵") end;
def color: if over then "2e7d32" else pick("d32f2f"; "f9a825"; "1976d2") end;
def title: (d.title // "Alert") | tostring | swap("\n"; " ") | swap("\r"; " ") | cut(200);
def head: if plain then title else mark + " " + (if over and (title | ascii_downcase | startswith("resolved") | not) then "Resolved: " else "" end) + title end;
def page: $in.link // d.url // "";
def links: [(page | select(. != "") | {name: (d.link_name // "Open"), url: .}),
	(d.acknowledge_url // "" | select(. != "" and (over | not)) | {name: "Acknowledge", url: .})];
def said: d.text // "" | tostring | cut(1200);
def text: [said] + [links[] | .name + ": " + .url] | map(select(. != "")) | join("\n");
def both: head + "\n" + text;
def alert: (if (d.alert_id // "") == "" then $in.id else d.alert_id end) | tostring;
`

// rows are all services.
var rows = []row{
	{
		Service: Service{Name: "bark", Title: "Bark", Form: "bark://:key@host", Example: "bark://:dEvIcEkEyOfNobody@api.day.app",
			Pasted:  "https://api.day.app/dEvIcEkEyOfNobody/Title",
			Arrives: "a push with title, text and link; a page alert breaks through the focus modes"},
		pasted: []way{
			{host: "api.day.app", path: "/{key!}/{rest*}", url: "bark://:{key}@api.day.app"},
		},
		ways: []way{
			{user: "{user?}", pass: "{key!}", host: "{host}", path: "/{path*}", query: "", url: "{+scheme}://{host}{+path}/push"},
			{user: "{key!}", host: "{host}", path: "/{path*}", url: "{+scheme}://{host}{+path}/push"},
		},
		ignored: append([]string{"sound", "badge", "group", "url", "category", "copy"}, decorations...),
		method:  "POST",
		body: `{device_key: .to.key, title: head, body: said, group: "grapnel",
	level: (if over then "passive" else pick("timeSensitive"; "active"; "passive") end)} + (if page == "" then {} else {url: page} end)`,
		answer: `if (.json|type) == "object" and (.json.code // 200) >= 400 then {status: .json.code, error: .json.message} else null end`,
	},
	{
		Service: Service{Name: "discord", Title: "Discord", Form: "discord://token@id[?thread_id=id]",
			Example: "discord://wEbHoOkToKeNoFnObOdY@123456789012345678", Pasted: "https://discord.com/api/webhooks/123456789012345678/wEbHoOkToKeNoFnObOdY",
			Arrives: "a message of a webhook, at most 2000 characters, without mentions"},
		pasted: []way{
			{host: "discord.com", path: "/api/webhooks/{id}/{token!}", query: "thread_id={thread}",
				url: "discord://{token}@{id}?thread_id={thread}"},
			{host: "discord.com", path: "/api/webhooks/{id}/{token!}", url: "discord://{token}@{id}"},
			{host: "discordapp.com", path: "/api/webhooks/{id}/{token!}", query: "thread_id={thread}", url: "discord://{token}@{id}?thread_id={thread}"},
			{host: "discordapp.com", path: "/api/webhooks/{id}/{token!}", url: "discord://{token}@{id}"},
			{host: "canary.discord.com", path: "/api/webhooks/{id}/{token!}", query: "thread_id={thread}", url: "discord://{token}@{id}?thread_id={thread}"},
			{host: "canary.discord.com", path: "/api/webhooks/{id}/{token!}", url: "discord://{token}@{id}"},
			{host: "ptb.discord.com", path: "/api/webhooks/{id}/{token!}", query: "thread_id={thread}", url: "discord://{token}@{id}?thread_id={thread}"},
			{host: "ptb.discord.com", path: "/api/webhooks/{id}/{token!}", url: "discord://{token}@{id}"},
		},
		ways: []way{
			{user: "{token!}", host: "{id}", query: "thread_id={thread}", url: "https://discord.com/api/webhooks/{id}/{token}?wait=true&thread_id={thread}"},
			{user: "{token!}", host: "{id}", url: "https://discord.com/api/webhooks/{id}/{token}?wait=true"},
		},
		checks: map[string]check{"id": number, "thread": number}, ignored: append([]string{"json"}, decorations...),
		method: "POST",
		body:   `{content: (both | calm | cut(2000)), allowed_mentions: {parse: []}, flags: 4}`,
		answer: `if .status == 429 and (.json|type) == "object" then {status: 429, error: .json.message, after: .json.retry_after} else null end`,
	},
	{
		Service: Service{Name: "generic", Title: "Webhook of your own", Form: "generic://host/path or generic+https://host/path; @Name=value adds a header",
			Example: "generic+https://example.com/alerts?@Authorization=Bearer%20x", Arrives: "the alert's fields as JSON, with title and message"},
		ways:   []way{{host: "{host}", path: "/{path!*}", url: "{+scheme}://{host}{+path}{+query}"}},
		passes: true, ignored: []string{"template", "contenttype", "method", "titlekey", "messagekey", "title"}, method: "POST",
		body: `d + {title: head, message: text, event_id: .id}`,
	},
	{
		Service: Service{Name: "googlechat", Title: "Google Chat", Form: "googlechat://chat.googleapis.com/v1/spaces/space/messages?key=key&token=token",
			Example: "googlechat://chat.googleapis.com/v1/spaces/AAAA/messages?key=kEyOfNobody&token=tOkEnOfNobody", Pasted: "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=kEyOfNobody&token=tOkEnOfNobody",
			Arrives: "a message in the space; messages of one alert share a thread"},
		pasted: []way{
			{host: "chat.googleapis.com", path: "/v1/spaces/{space}/messages", query: "key={key!}&token={token!}", url: "googlechat://chat.googleapis.com/v1/spaces/{space}/messages?key={key}&token={token}"},
		},
		ways: []way{{host: "chat.googleapis.com", path: "/v1/spaces/{space}/messages", query: "key={key!}&token={token!}",
			url: "https://chat.googleapis.com/v1/spaces/{space}/messages?key={key}&token={token}&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"}},
		method: "POST", ignored: decorations,
		body: `{text: (both | swap("<"; "<\u200b") | cut(4000)), thread: {threadKey: alert}}`,
	},
	{
		Service: Service{Name: "gotify", Title: "Gotify", Form: "gotify://host/token", Example: "gotify://push.example.com/AzyoeNS.D4iJLVa",
			Arrives: "a message with title, text, priority 8, 5 or 2, and a link"},
		pasted: []way{
			{host: "{host}", path: "/{path*}/message", query: "token={token!}", url: ""},
		},
		ways: []way{
			{host: "{host}", path: "/{path*}/message", query: "token={token!}", url: "{+scheme}://{host}{+path}/message", headers: map[string]string{"X-Gotify-Key": "{token}"}},
			{host: "{host}", path: "/{path*}/{token!}", url: "{+scheme}://{host}{+path}/message", headers: map[string]string{"X-Gotify-Key": "{token}"}},
		},
		ignored: append([]string{"priority", "useheader", "date", "extras"}, decorations...), method: "POST",
		body: `{title: head, message: text, priority: (if over then 2 else pick(8; 5; 2) end)} +
	(if page == "" then {} else {extras: {"client::notification": {click: {url: page}}}} end)`,
	},
	{
		Service: Service{Name: "matrix", Title: "Matrix", Form: "matrix://:access-token@host/?rooms=!room:server",
			Example: "matrix://:syt_tOkEnOfNoBoDy@matrix.example.com/?rooms=!room:example.com", Arrives: "a message in the room; a repetition is recognised by the server"},
		ways: []way{
			{pass: "{token!}", host: "{host}", query: "rooms|room={room}", headers: map[string]string{"Authorization": "Bearer {token}"},
				url: "{+scheme}://{host}/_matrix/client/v3/rooms/{room}/send/m.room.message/{event}"},
		},
		checks: map[string]check{"room": {`^![^,]+$`, "must name one room in rooms by its id, which begins with an exclamation mark; make a channel for each room"}},
		method: "PUT", ignored: decorations,
		body:   `{msgtype: "m.text", body: both, "m.mentions": {}}`,
		answer: `if .status == 429 and (.json|type) == "object" then {status: 429, error: .json.error, after: ((.json.retry_after_ms // 0) / 1000)} else null end`,
	},
	{
		Service: Service{Name: "mattermost", Title: "Mattermost", Form: "mattermost://[user@]host/token[/channel]",
			Example: "mattermost://chat.example.com/wEbHoOkToKeN", Arrives: "a message of an incoming webhook with a coloured bar"},
		pasted: []way{
			{host: "{host}", path: "/{path*}/hooks/{token!}", url: ""},
		},
		ways:    []way{{user: "{name?}", host: "{host}", path: "/{token!}/{channel?}", url: "{+scheme}://{host}/hooks/{token}"}},
		ignored: decorations, method: "POST",
		body: `{text: (head | calm), attachments: [{fallback: (head | calm), color: ("#" + color), text: (text | calm | cut(3900))}]} +
	(if .to.channel == "" then {} else {channel: .to.channel} end) + (if .to.name == "" then {} else {username: .to.name} end)`,
	},
	{
		Service: Service{Name: "ntfy", Title: "ntfy", Form: "ntfy://[user:password@]host/topic[?token=token]", Example: "ntfy://ntfy.sh/my-secret-topic-7f3a",
			Pasted:  "https://ntfy.sh/my-secret-topic-7f3a",
			Arrives: "a notification with title, text, priority 5, 4 or 3, and buttons for the links"},
		pasted: []way{
			{host: "ntfy.sh", path: "/{topic!}", url: "ntfy://ntfy.sh/{topic}"},
		},
		ways: []way{
			{host: "{host}", path: "/{topic!}", query: "token={token!}", headers: map[string]string{"Authorization": "Bearer {token}"}, url: "{+scheme}://{host}/"},
			{user: "{user}", pass: "{password!}", host: "{host}", path: "/{topic!}", headers: map[string]string{"Authorization": "Basic {basic}"}, url: "{+scheme}://{host}/"},
			{host: "{host}", path: "/{topic!}", url: "{+scheme}://{host}/"},
		},
		checks: map[string]check{"topic": {`^[-_A-Za-z0-9]{1,64}$`, "has a topic that is not 1 to 64 characters of [-_A-Za-z0-9]"}},
		ignored: append([]string{"priority", "tags", "actions", "click", "delay", "email", "cache", "firebase", "attach",
			"filename"}, decorations...),
		method: "POST",
		body: `{topic: .to.topic, title: head, message: said, priority: (if over then 3 else pick(5; 4; 3) end), actions: [links[] | {action: "view", label: .name, url: .url}]} +
	(if page == "" then {} else {click: page} end)`,
	},
	{
		Service: Service{Name: "opsgenie", Title: "Opsgenie", Form: "opsgenie://host/key", Example: "opsgenie://api.opsgenie.com/eb243592-faa2-4ba2-a551-1afdf565c889",
			Pasted:  "https://api.opsgenie.com/v1/json/integrations?apiKey=eb243592-faa2-4ba2-a551-1afdf565c889",
			Arrives: "an alert of priority P1, P3 or P5, which is closed when the alert is resolved"},
		pasted: []way{
			{host: "api.opsgenie.com", path: "/{rest*}", query: "apikey={key!}", url: "opsgenie://api.opsgenie.com/{key}"},
			{host: "api.eu.opsgenie.com", path: "/{rest*}", query: "apikey={key!}", url: "opsgenie://api.eu.opsgenie.com/{key}"},
		},
		ways: []way{{host: "{host}", path: "/{key!}", headers: map[string]string{"Authorization": "GenieKey {key}"},
			url: "https://{host}/v2/alerts", closing: "https://{host}/v2/alerts/{alert}/close?identifierType=alias"}},
		ignored: append([]string{"responders", "tags", "actions", "entity", "source", "priority", "note", "user", "alias", "description", "details", "visibleto"}, decorations...),
		method:  "POST", closes: true,
		body: `if over then {source: "grapnel", note: (text | cut(25000))} else {message: (title | cut(130)), alias: alert,
	description: (text | cut(15000)),
	source: "grapnel", priority: pick("P1"; "P3"; "P5"), tags: ["grapnel", sev]} end`,
	},
	{
		Service: Service{Name: "pagerduty", Title: "PagerDuty", Form: "pagerduty://[host]/integration-key", Example: "pagerduty:///eb243592faa24ba2a551q1afdf565c88",
			Pasted:  "https://events.pagerduty.com/integration/eb243592faa24ba2a551q1afdf565c88/enqueue",
			Arrives: "an incident, which is resolved when the alert is resolved"},
		pasted: []way{
			{host: "events.pagerduty.com", path: "/integration/{key!}/enqueue", url: "pagerduty://events.pagerduty.com/{key}"},
			{host: "events.eu.pagerduty.com", path: "/integration/{key!}/enqueue", url: "pagerduty://events.eu.pagerduty.com/{key}"},
		},
		ways:     []way{{host: "{host?}", path: "/{key!}", url: "https://{host}/v2/enqueue"}},
		defaults: map[string]string{"host": "events.pagerduty.com"}, ignored: append([]string{"severity", "source", "action", "details", "contexts", "client", "clienturl"}, decorations...),
		method: "POST", closes: true,
		body: `{routing_key: .to.key, event_action: (if over then "resolve" else "trigger" end), dedup_key: (alert | cut(255)),
	payload: {summary: (title | cut(1024)), source: ("grapnel/" + ((d.tenant // "") | tostring)), severity: pick("critical"; "warning"; "info"),
	custom_details: {text: said, rule: (d.rule // "")}}, client: "Grapnel", links: [links[] | {href: .url, text: .name}]}`,
	},
	{
		Service: Service{Name: "pushover", Title: "Pushover", Form: "pushover://shoutrrr:api-token@user-key[/?devices=device,…]",
			Example: "pushover://shoutrrr:aPiToKeN@uSeRkEy", Arrives: "a notification of priority 1, 0 or -1, with a link"},
		ways:    []way{{user: "{name?}", pass: "{token!}", host: "{user!}", query: "devices={devices?}", url: "https://api.pushover.net/1/messages.json"}},
		ignored: append([]string{"priority"}, decorations...), method: "POST", form: true,
		body: `{token: .to.token, user: .to.user, title: (head | cut(250)), message: (said | if . == "" then title else . end | cut(1024)),
	priority: (if over then "-1" else pick("1"; "0"; "-1") end)} + (if page == "" then {} else {url: (page | cut(512)), url_title: "Open"} end) +
	(if .to.devices == "" then {} else {device: .to.devices} end)`,
		answer: `if (.json|type) == "object" and .json.status == 0 and .status < 400 then {status: 400, error: ((.json.errors // []) | join("; "))} else null end`,
	},
	{
		Service: Service{Name: "rocketchat", Title: "Rocket.Chat", Form: "rocketchat://[user@]host/token-a/token-b[/channel]",
			Example: "rocketchat://chat.example.com/tOkEnA/tOkEnB", Arrives: "a message of an incoming webhook with a coloured bar"},
		pasted: []way{
			{host: "{host}", path: "/{path*}/hooks/{a!}/{b!}", url: ""},
		},
		ways:    []way{{user: "{name?}", host: "{host}", path: "/{a!}/{b!}/{channel?}", url: "{+scheme}://{host}/hooks/{a}/{b}"}},
		ignored: decorations, method: "POST",
		body: `{text: (head | calm), attachments: [{color: ("#" + color), text: (text | calm | cut(3900))}]} +
	(if .to.channel == "" then {} else {channel: (.to.channel | if startswith("@") or startswith("#") then . else "#" + . end)} end) +
	(if .to.name == "" then {} else {username: .to.name} end)`,
		answer: `if (.json|type) == "object" and .json.success == false then {status: 400, error: .json.error} else null end`,
	},
	{
		Service: Service{Name: "slack", Title: "Slack", Form: "slack://hook:A-B-C@webhook or slack://xoxb:token@channel-id",
			Example: "slack://hook:WNA3PBYV6-F20DUQND3RQ-Webc4MAvoacrpPakR8phF0zi@webhook", Pasted: "https://hooks.slack.com/services/WNA3PBYV6/F20DUQND3RQ/Webc4MAvoacrpPakR8phF0zi",
			Arrives: "a message with a coloured bar and links"},
		pasted: []way{
			{host: "hooks.slack.com", path: "/services/{a}/{b!}/{c!}", url: "slack://hook:{a}-{b}-{c}@webhook"},
		},
		ways: []way{
			{user: "hook", pass: "{a}-{b!}-{c!}", host: "webhook", url: "https://hooks.slack.com/services/{a}/{b}/{c}"},
			{user: "{kind}", pass: "{token!}", host: "{channel}", url: "https://slack.com/api/chat.postMessage", headers: map[string]string{"Authorization": "Bearer {kind}-{token}"}},
			{user: "{name?}", host: "{a}", path: "/{b!}/{c!}", url: "https://hooks.slack.com/services/{a}/{b}/{c}"},
		},
		checks: map[string]check{"kind": {`^xox[a-z]$`, "has a token of an unknown kind; known are hook, and xoxb of a bot"},
			"c": {`^[A-Za-z0-9]{8,64}$`, "has a token that is not three parts of letters and digits, the last of 8 to 64"}},
		ignored: decorations, method: "POST",
		body: `def esc: swap("&"; "&amp;") | swap("<"; "&lt;") | swap(">"; "&gt;");
{text: (head | esc), unfurl_links: false, attachments: [{fallback: (head | esc), color: ("#" + color),
	text: ([(said | esc)] + [links[] | "<" + (.url | esc | swap("|"; "%7C")) + "|" + .name + ">"] | map(select(. != "")) | join("\n"))}]} +
	(if .to.channel then {channel: .to.channel} else {} end)`,
		answer: `if (.json|type) == "object" and .json.ok == false then {error: .json.error,
	status: (if (.json.error | IN("ratelimited", "rate_limited", "message_limit_exceeded")) then 429 elif (.json.error | IN("internal_error", "fatal_error", "service_unavailable", "request_timeout")) then 503 else 400 end)} else null end`,
	},
	{
		Service: Service{Name: "smtp", Title: "Mail", Form: "smtp://[user:password@]host[:port]/?fromaddress=a@example.com&toaddresses=b@example.com,…",
			Example: "smtp://alerts:pAsSwOrDoFnObOdY@mail.example.com:587/?fromaddress=alerts@example.com&toaddresses=oncall@example.com",
			Arrives: "a mail in plain text; mails of one alert are one thread"},
		ways: []way{{user: "{user?}", pass: "{password!?}", host: "{host}", url: "smtp://{host}/",
			query: "fromaddress|from={from}&toaddresses|to={recipients}&fromname={fromname?}&subject={subject?}&auth={auth?}&encryption={encryption?}" +
				"&usestarttls|starttls={usestarttls?}&requirestarttls={requirestarttls?}&clienthost={clienthost?}"}},
		ignored: []string{"title", "usehtml", "timeout"}, mail: true,
		body: `{subject: ((if (.to.subject // "") == "" then "" else .to.subject + " " end) + head), text: both, thread: alert}`,
	},
	{
		Service: Service{Name: "teams", Title: "Microsoft Teams",
			Form:    "teams://group@tenant/altId/groupOwner/extraId?host=name.webhook.office.com or teams://?host=URL%20of%20a%20workflow",
			Example: "teams://?host=https%3A%2F%2Fprod-01.westeurope.logic.azure.com%2Fworkflows%2Fx%2Finvoke%3Fsig%3Ds",
			Pasted:  "https://prod-01.westeurope.logic.azure.com/workflows/x/invoke?sig=s",
			Arrives: "an adaptive card with buttons for the links"},
		pasted: []way{
			{host: "{any}.webhook.office.com", path: "/webhookb2/{group}@{tenant}/IncomingWebhook/{alt!}/{owner}/{extra!}", url: "teams://{group}@{tenant}/{alt}/{owner}/{extra}?host={any}.webhook.office.com"},
			{host: "{any}.webhook.office.com", path: "/webhookb2/{group}@{tenant}/IncomingWebhook/{alt!}/{owner}", url: "teams://{group}@{tenant}/{alt}/{owner}?host={any}.webhook.office.com"},
			{host: "{any}.logic.azure.com", path: "/{rest*}", query: "sig={sig!}", url: "teams://?host={whole}"},
			{host: "{any}.environment.api.powerplatform.com", path: "/{rest*}", query: "sig={sig!}", url: "teams://?host={whole}"},
		},
		ways: []way{
			{user: "{group}", host: "{tenant}", path: "/{alt!}/{owner}/{extra!}", query: "host={org}",
				url: "https://{org}/webhookb2/{group}@{tenant}/IncomingWebhook/{alt}/{owner}/{extra}"},
			{user: "{group}", host: "{tenant}", path: "/{alt!}/{owner}", query: "host={org}",
				url: "https://{org}/webhookb2/{group}@{tenant}/IncomingWebhook/{alt}/{owner}"},
			{query: "host={workflow!}", url: "{+workflow}"},
		},
		checks: map[string]check{"org": {`^[A-Za-z0-9.-]+\.webhook\.office\.com$`, "has a host that is not name.webhook.office.com"},
			"workflow": {`^https://[^/?#@\s]+/\S*$`, "has a host that is not the percent-encoded URL of a workflow, beginning with https://"}},
		ignored: decorations, method: "POST",
		body: `{type: "message", attachments: [{contentType: "application/vnd.microsoft.card.adaptive", contentUrl: null, content: {
	"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", type: "AdaptiveCard", version: "1.4",
	body: [{type: "RichTextBlock", inlines: [{type: "TextRun", text: head, weight: "Bolder", size: "Medium",
		color: (if over then "Good" else pick("Attention"; "Warning"; "Accent") end)}]},
		{type: "RichTextBlock", inlines: [{type: "TextRun", text: (said | if . == "" then " " else . end)}]}],
	actions: [links[] | {type: "Action.OpenUrl", title: .name, url: .url}]}}]}`,
		// It answers 200 where a part behind it refused; the text says which status that gave.
		answer: `if .status < 300 and (.text | contains("HTTP error 429")) then {status: 429, error: "HTTP error 429"}
	elif .status < 300 and (.text | contains("delivery failed")) then {status: 502, error: .text[:200]} else null end`,
	},
	{
		Service: Service{Name: "telegram", Title: "Telegram", Form: "telegram://token@telegram?chats=@channel, chat-id or chat-id:thread-id",
			Example: "telegram://123456789:AAtOkEnOfNoBoDy_0123456789abcdefghi@telegram?chats=-1001234567890", Pasted: "https://api.telegram.org/bot123456789:AAtOkEnOfNoBoDy_0123456789abcdefghi/sendMessage?chat_id=-1001234567890",
			Arrives: "a message of a bot, at most 4096 characters"},
		pasted: []way{
			{host: "api.telegram.org", path: "/bot{bot}:{token!}/sendMessage", query: "chat_id={chat}", url: "telegram://{bot}:{token}@telegram?chats={chat}"},
		},
		ways: []way{
			{user: "{bot}", pass: "{token!}", host: "telegram", query: "chats|channels={chat}", url: "https://api.telegram.org/bot{bot}:{token}/sendMessage"},
		},
		checks:  map[string]check{"bot": number, "chat": oneChat, "token": {`^[A-Za-z0-9_-]{10,}$`, "has a token that is not number:letters, as the bot father gives it"}},
		ignored: decorations, method: "POST",
		body: `{text: (both | cut(2048)), link_preview_options: {is_disabled: true}, disable_notification: over} +
	(.to.chat | split(":") | {chat_id: .[0]} + (if length > 1 then {message_thread_id: (.[1] | tonumber)} else {} end))`,
		answer: `if (.json|type) == "object" and .json.ok == false then {status: (.json.error_code // 400), error: .json.description, after: .json.parameters.retry_after} else null end`,
	},
	{
		Service: Service{Name: "zulip", Title: "Zulip", Form: "zulip://bot-mail:bot-key@host/?stream=stream&topic=topic (the @ of the mail as %40)",
			Example: "zulip://alerts-bot%40example.com:bOtKeY@example.zulipchat.com/?stream=alerts&topic=grapnel", Arrives: "a message in the stream, under the topic or the alert's title"},
		ways: []way{{user: "{user}", pass: "{password!}", host: "{host}", query: "stream={stream}&topic={topic?}",
			url: "{+scheme}://{host}/api/v1/messages", headers: map[string]string{"Authorization": "Basic {basic}"}}},
		ignored: decorations, method: "POST", form: true,
		body: `{type: "stream", to: .to.stream, topic: ((if .to.topic == "" then title | ltrimstr("Resolved: ") | ltrimstr("Still: ") else .to.topic end) | cut(60)), content: (both | calm | cut(9000))}`,
		answer: `if (.json|type) == "object" and .json.result == "error" and .status < 400 then {status: 400, error: .json.msg}
	elif .status == 429 and (.json|type) == "object" then {status: 429, error: .json.msg, after: .json["retry-after"]} else null end`,
	},
}
