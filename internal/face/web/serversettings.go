package web

import "github.com/grapnelhq/grapnel/internal/base/say"

// settingsModel lists the settings that the server runs with.
type settingsModel struct {
	Verdict verdict
	Rows    []settingRow
}

// settingRow is one setting.
type settingRow struct{ Name, Value, Doc string }

// serverSettings asks for the settings of the node that answers.
func serverSettings(v *visit) (settingsModel, error) {
	found, err := v.client.Settings(v.Context())
	if err != nil {
		return settingsModel{}, err
	}
	var m settingsModel
	m.Verdict.say("Grapnel "+found.Version+" runs with "+say.Many(len(found.Settings), "setting", "settings")+".", "",
		"They are set by flags, variables or the config file when the server starts, and cannot be changed here. Secrets are variables and not shown.")
	for _, s := range found.Settings {
		m.Rows = append(m.Rows, settingRow{s.Name, s.Value, s.Doc})
	}
	m.Verdict.Acts = []act{{Label: "Nodes and tenants", Href: v.link("/nodes")}, {Label: "API keys", Href: v.link("/keys")}, {Label: "Audit", Href: v.link("/audit")}}
	return m, nil
}
