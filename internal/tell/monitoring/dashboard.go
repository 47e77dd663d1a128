package monitoring

import "encoding/json"

// panel is one graph.
type panel struct {
	title, unit string
	queries     []query
}

type query struct{ expression, legend string }

// row is a line of panels below a title, which is the question that they answer.
type row struct {
	title  string
	panels []panel
}

func rows() []row {
	return []row{
		{"Are the promises kept?", []panel{
			{"Availability, part that failed", "percentunit", []query{{"grapnel:availability:bad_ratio_1h", "1 h"}, {"grapnel:availability:bad_ratio_6h", "6 h"},
				{"grapnel:availability:bad_ratio_72h", "3 d"}}},
			{"Freshness, part that was late", "percentunit", []query{{"grapnel:freshness:bad_ratio_1h", "1 h"}, {"grapnel:freshness:bad_ratio_6h", "6 h"},
				{"grapnel:freshness:bad_ratio_72h", "3 d"}}},
		}},
		{"Does everything arrive?", []panel{
			{"Events and deliveries", "reqps", []query{{"sum(rate(grapnel_events_accepted_total[5m]))", "accepted"},
				{`sum by (outcome) (rate(grapnel_deliveries_total[5m]))`, "{{outcome}}"}}},
			{"Pending deliveries", "short", []query{{"sum by (state) (max by (job, state) (grapnel_backlog))", "{{state}}"}}},
			{"Age of the oldest pending delivery", "s", []query{{"max(grapnel_oldest_undelivered_age_seconds)", "age"}}},
			{"Dead letters", "short", []query{{"sum(max by (job) (grapnel_dead_letters))", "waiting"},
				{"sum by (reason) (increase(grapnel_dead_letters_total[1h]))", "{{reason}}"}}},
		}},
		{"How do receivers do?", []panel{
			{"Attempts", "reqps", []query{{"sum by (error_class) (rate(grapnel_attempts_total[5m]))", "{{error_class}}"}}},
			{"First attempts that succeed", "percentunit", []query{{
				firstAttempts, "succeed"}}},
			{"Endpoints", "short", []query{{"sum by (state) (grapnel_breaker_state)", "{{state}}"}}},
			{"Duration of attempts", "s", quantiles("grapnel_attempt_duration_seconds")},
		}},
		{"Is the server quick?", []panel{
			{"Answers to publishes", "s", quantiles("grapnel_ingest_duration_seconds")},
			{"From acceptance to the first attempt", "s", quantiles("grapnel_first_attempt_lag_seconds")},
			{"Commits", "s", quantiles("grapnel_store_commit_seconds")},
			{"Refused for overload", "reqps", []query{{"sum by (what, why) (rate(grapnel_shed_total[5m]))", "{{what}}: {{why}}"}}},
		}},
		{"Receiving, queues and alerts", []panel{
			{"Webhooks that came in", "reqps", []query{{"sum by (outcome) (rate(grapnel_ingress_requests_total[5m]))", "{{outcome}}"}}},
			{"Leases", "reqps", []query{{"sum by (action) (rate(grapnel_queue_settled_total[5m]))", "{{action}}"}}},
			{"From due to leased", "s", quantiles("grapnel_lease_lag_seconds")},
			{"Alerts sent", "reqps", []query{{"sum by (channel, result) (rate(grapnel_alerts_sent_total[5m]))", "{{channel}}: {{result}}"}}},
		}},
	}
}

func quantiles(histogram string) []query {
	at := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le) (rate(" + histogram + "_bucket[5m])))"
	}
	return []query{{at("0.5"), "p50"}, {at("0.95"), "p95"}, {at("0.99"), "p99"}}
}

// The widths and heights of Grafana's grid.
const (
	gridWidth   = 24
	panelHeight = 8
)

// Dashboard is a dashboard for Grafana. It asks for the data source when it is imported.
func Dashboard() ([]byte, error) {
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var panels []any
	y := 0
	for _, r := range rows() {
		panels = append(panels, map[string]any{"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": grid(0, y, gridWidth, 1)})
		y++
		width := gridWidth / len(r.panels)
		for i, p := range r.panels {
			var targets []any
			for j, q := range p.queries {
				targets = append(targets, map[string]any{"refId": string(rune('A' + j)), "expr": q.expression, "legendFormat": q.legend,
					"datasource": source})
			}
			panels = append(panels, map[string]any{"id": len(panels) + 1, "type": "timeseries", "title": p.title,
				"datasource": source, "targets": targets,
				"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}},
				"gridPos":     grid(i*width, y, width, panelHeight)})
		}
		y += panelHeight
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": "Grapnel", "uid": "grapnel", "tags": []string{"grapnel"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time": map[string]string{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": map[string]any{"list": []any{map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}}},
	}, "", "  ")
	return append(text, '\n'), err
}

func grid(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }
