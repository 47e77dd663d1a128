package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportPlansAndApplies: without --apply only GETs are sent; with it the objects are created.
// Neither the token nor a secret is in any output.
func TestImportPlansAndApplies(t *testing.T) {
	const secret, token = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "the-token"
	svix := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answers := map[string]string{
			"/api/v1/app":                            `{"data":[{"id":"app_1","uid":"acme","name":"Acme"}],"done":true}`,
			"/api/v1/event-type":                     `{"data":[],"done":true}`,
			"/api/v1/app/app_1/endpoint":             `{"data":[{"id":"ep_1","url":"https://example.com/a?k=v"},{"id":"ep_2","url":"nonsense"}],"done":true}`,
			"/api/v1/app/app_1/endpoint/ep_1/secret": `{"key":"` + secret + `"}`,
			"/api/v1/app/app_1/endpoint/ep_2/secret": `{"key":"` + secret + `"}`,
		}
		text, is := answers[r.URL.Path]
		if !is {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(svix.Close)
	f := newFake(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodGet {
			return 200, `{"data":[],"next":null}`
		}
		return 201, `{"id":"ep_here","tenant":"acme"}`
	})
	env := f.env()
	env["GRAPNEL_IMPORT_TOKEN"] = token
	for _, form := range []string{"table", "json", "jsonl", "name"} {
		f.seen = nil
		got := invoke(t, env, "", "import", "svix", "--url", svix.URL, "-o", form)
		for _, one := range f.seen {
			if one.Method != http.MethodGet {
				t.Errorf("a plan sent %s %s", one.Method, one.Target)
			}
		}
		if got.code != 0 || !strings.Contains(got.errs, "2 to create, 0 to change, 0 as they are, 1 that cannot be carried over") ||
			!strings.Contains(got.out, "ep_1") || strings.Contains(got.out+got.errs, secret) || strings.Contains(got.out, "k=v") {
			t.Errorf("%s: exits %d\n%s%s", form, got.code, got.out, got.errs)
		}
	}
	f.seen = nil
	got := invoke(t, env, "", "import", "svix", "--url", svix.URL, "--apply", "-o", "json")
	var plan struct{ Items []struct{ Done bool } }
	err := json.Unmarshal([]byte(got.out), &plan)
	if err != nil || got.code != 9 || len(plan.Items) != 3 || !plan.Items[1].Done || plan.Items[2].Done {
		t.Errorf("exits %d: %s%s", got.code, got.out, got.errs)
	}
	sent := ""
	for _, one := range f.seen {
		if one.Method == http.MethodPost {
			sent += one.Target + one.Body + "\n"
		}
	}
	if !strings.Contains(sent, `"secret":"`+secret+`"`) || strings.Count(sent, "\n") != 2 || strings.Contains(got.out+got.errs, secret) {
		t.Errorf("sent: %s\n%s", sent, got.out)
	}
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"svix --url " + svix.URL + " --token wrong": {4, "403"},
		"svix --token x":                                          {2, "needs --url"},
		"svix --url nonsense":                                     {2, "must look like"},
		"svix --url " + svix.URL + "/nowhere":                     {3, "404"},
		"svix --url http://127.0.0.1:1 --bound tries=4,pause=1ms": {6, "no answer"},
		"convoy --url " + svix.URL:                                {2, "--project"},
		"csv":                                                     {2, "1 arg"},
		"csv @nowhere.csv":                                        {2, "nowhere.csv"},
	} {
		got := invoke(t, env, "", append([]string{"import"}, strings.Fields(args)...)...)
		if got.code != want.code || !strings.Contains(got.errs, want.says) || strings.Contains(got.errs, token) {
			t.Errorf("%s: exits %d: %s", args, got.code, got.errs)
		}
	}
	delete(env, "GRAPNEL_IMPORT_TOKEN")
	if got := invoke(t, env, "", "import", "svix", "--url", svix.URL); got.code != 2 || !strings.Contains(got.errs, "GRAPNEL_IMPORT_TOKEN") {
		t.Errorf("exits %d: %s", got.code, got.errs)
	}
}

// TestImportNamesEveryFaultOfAFile, and asks the server nothing.
func TestImportNamesEveryFaultOfAFile(t *testing.T) {
	f := newFake(t, always(200, `{"data":[],"next":null}`))
	file := filepath.Join(t.TempDir(), "endpoints.csv")
	if err := os.WriteFile(file, []byte("url,types\nhttp://h/,a\nnonsense,b..\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := invoke(t, f.env(), "", "import", "csv", "@"+file, "--apply")
	if got.code != 2 || len(f.seen) != 0 || got.out != "" || !strings.Contains(got.errs, "line 3, column 1 (url)") ||
		!strings.Contains(got.errs, "line 3, column 10 (types)") || !strings.Contains(got.errs, "2 faults") {
		t.Errorf("exits %d after %d requests: %s%s", got.code, len(f.seen), got.out, got.errs)
	}
	got = invoke(t, f.env(), "url\nhttp://h/\n", "import", "csv", "-")
	if got.code != 0 || !strings.Contains(got.errs, "1 to create") {
		t.Errorf("exits %d: %s", got.code, got.errs)
	}
}
