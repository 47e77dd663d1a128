package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseReportsEveryWrongField(t *testing.T) {
	cases := []struct {
		raw  string
		want []string // pointers, sorted
	}{
		{``, []string{""}},
		{`[]`, []string{""}},
		{`"standard"`, []string{""}},
		{`{"timeout":"10s"`, []string{""}},
		{`{"timeout":"10s"} {}`, []string{""}},
		{strings.Repeat(`{"a":`, 9) + `1` + strings.Repeat(`}`, 9), []string{""}},
		{`{"colour":1}`, []string{"/colour"}},
		{`{"colour":null}`, []string{"/colour"}},
		{`{"a/b~c":1}`, []string{"/a~1b~0c"}},
		{`{"timeout":"1s","timeout":"2s"}`, []string{"/timeout"}},
		{`{"timeout":10}`, []string{"/timeout"}},
		{`{"timeout":"ten"}`, []string{"/timeout"}},
		{`{"timeout":"-1s"}`, []string{"/timeout"}},
		{`{"timeout":"0s"}`, []string{"/timeout"}},
		{`{"timeout":"1h"}`, []string{"/timeout"}},
		{`{"Timeout":"1s"}`, []string{"/Timeout"}},
		{`{"schedule":"fast"}`, []string{"/schedule"}},
		{`{"schedule":{}}`, []string{"/schedule/delays"}},
		{`{"schedule":{"mode":"often","delays":["1s"]}}`, []string{"/schedule/mode"}},
		{`{"schedule":{"delays":[]}}`, []string{"/schedule/delays"}},
		{`{"schedule":{"delays":["0s",5,"x","-1s","721h"]}}`, []string{"/schedule/delays/1", "/schedule/delays/2", "/schedule/delays/3", "/schedule/delays/4"}},
		{`{"schedule":{"delays":["0s","-1s","721h"]}}`, []string{"/schedule/delays/1", "/schedule/delays/2"}},
		{`{"schedule":{"delays":["0s"],"tail":"forever"}}`, []string{"/schedule/tail"}},
		{`{"schedule":{"delays":["1s","0s"],"tail":"repeat"}}`, []string{"/schedule/tail"}},
		{`{"schedule":{"mode":"since_first","delays":["0s","5s","4s"]}}`, []string{"/schedule/delays/2"}},
		{`{"schedule":{"mode":"since_first","delays":["0s","5s","5s"],"tail":"repeat"}}`, []string{"/schedule/tail"}},
		{`{"schedule":{"delays":["0s"],"base":"1s"}}`, []string{"/schedule/base"}},
		{`{"schedule":{"mode":"exponential"}}`, []string{"/schedule/base"}},
		{`{"schedule":{"mode":"exponential","base":"5s","factor":0.5}}`, []string{"/schedule/factor"}},
		{`{"schedule":{"mode":"exponential","base":"5s","factor":1e400}}`, []string{"/schedule/factor"}},
		{`{"schedule":{"mode":"exponential","base":"5s","max":"1s"}}`, []string{"/schedule/max"}},
		{`{"schedule":{"mode":"exponential","base":"5s","delays":["0s"]}}`, []string{"/schedule/delays"}},
		{`{"jitter":-0.1}`, []string{"/jitter"}},
		{`{"jitter":1.1}`, []string{"/jitter"}},
		{`{"jitter":"10%"}`, []string{"/jitter"}},
		{`{"jitter":{"add":5}}`, []string{"/jitter/add"}},
		{`{"jitter":{"add":"-5s"}}`, []string{"/jitter/add"}},
		{`{"jitter":{"plus":"5s"}}`, []string{"/jitter/add", "/jitter/plus"}},
		{`{"max_attempts":0}`, []string{"/max_attempts"}},
		{`{"max_attempts":-1}`, []string{"/max_attempts"}},
		{`{"max_attempts":1.5}`, []string{"/max_attempts"}},
		{`{"max_attempts":"9"}`, []string{"/max_attempts"}},
		{`{"max_attempts":99999999999999999999}`, []string{"/max_attempts"}},
		{`{"max_attempts":null,"schedule":{"delays":["0s","1s"],"tail":"repeat"}}`, []string{"/max_attempts"}},
		{`{"max_age":"0s"}`, []string{"/max_age"}},
		{`{"max_age":"-1h"}`, []string{"/max_age"}},
		{`{"max_age":86400}`, []string{"/max_age"}},
		{`{"success":"2xx"}`, []string{"/success"}},
		{`{"success":[]}`, []string{"/success"}},
		{`{"success":["2xx","3xx",200,"20","204-200","2XX","200-300"]}`, []string{"/success/2"}},
		{
			`{"success":["2xx","3xx","20","204-200","2XX","200-300"]}`,
			[]string{"/success/1", "/success/2", "/success/3", "/success/4", "/success/5"},
		},
		{`{"classify":["404"]}`, []string{"/classify"}},
		{`{"classify":{"4040":"fail"}}`, []string{"/classify/4040"}},
		{`{"classify":{"internal":"fail","status_4xx":"fail"}}`, []string{"/classify/internal", "/classify/status_4xx"}},
		{`{"classify":{"404":"deliver"}}`, []string{"/classify/404"}},
		{`{"classify":{"404":7}}`, []string{"/classify/404"}},
		{`{"classify":{"200":"fail"}}`, []string{"/classify/200"}},
		{`{"classify":{"404":"fail","404":"retry"}}`, []string{"/classify/404"}},
		{`{"retry_after":"shorten"}`, []string{"/retry_after"}},
		{`{"on_exhausted":"forget"}`, []string{"/on_exhausted"}},
		{`{"then":"stop"}`, []string{"/then"}},
		{`{"then":true}`, []string{"/then"}},
		{`{"disable":false}`, []string{"/disable"}},
		{`{"disable":{"consecutive":-1,"of":"4xx","after":"x","pending":"lose","when":1}}`,
			[]string{"/disable/after", "/disable/consecutive", "/disable/of", "/disable/pending", "/disable/when"}},
		{`{"breaker":true}`, []string{"/breaker"}},
		{`{"breaker":{"failures":0,"ratio":0,"window":"1ms","probe":"1m","probe_max":"1s","x":null}}`,
			[]string{"/breaker/failures", "/breaker/probe_max", "/breaker/ratio", "/breaker/window", "/breaker/x"}},
		{`{"name":"a b"}`, []string{"/name"}},
		{`{"name":"` + strings.Repeat("x", 65) + `"}`, []string{"/name"}},
		{`{"timeout":5,"max_attempts":"x","then":"go","nope":{}}`, []string{"/max_attempts", "/nope", "/then", "/timeout"}},
		{`{"name":"` + strings.Repeat("x", 70_000) + `"}`, []string{""}},
	}
	for _, c := range cases {
		_, err := Parse([]byte(c.raw))
		var errs Errors
		if !errors.As(err, &errs) {
			t.Errorf("%.200s: %v", c.raw, err)
			continue
		}
		var got []string
		for _, e := range errs {
			got = append(got, e.Pointer)
			if e.Detail == "" {
				t.Errorf("%s: nothing is said about %s", c.raw, e.Pointer)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%.200s\nreports %q, want %q: %v", c.raw, got, c.want, err)
		}
	}
}

func TestWhatIsLeftOutComesFromTheDefault(t *testing.T) {
	want, _ := Preset(DefaultPreset)
	want.Name = ""
	for _, raw := range []string{`{}`, `{"timeout":null,"schedule":null,"jitter":null,"breaker":null,"disable":null,"then":null}`} {
		if got := inline(t, raw); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, want %+v", raw, got, want)
		}
	}
	got := inline(t, `{"disable":{"consecutive":50},"breaker":{"failures":3}}`)
	if got.Disable != (Disable{Consecutive: 50, Of: ClassStatus4xx, After: 120 * hour, Pending: PendingHold}) {
		t.Errorf("disable is %+v", got.Disable)
	}
	b := DefaultBreaker()
	b.Failures = 3
	if got.BreakerRules() != b {
		t.Errorf("breaker is %+v", got.BreakerRules())
	}
}

func TestALimitThatNobodyWroteDoesNotCutATable(t *testing.T) {
	long := `["0s"` + strings.Repeat(`,"1s"`, 14) + `]`
	for raw, want := range map[string]int{
		`{"schedule":{"delays":` + long + `}}`:                                      15,
		`{"schedule":{"delays":` + long + `},"max_attempts":4}`:                     4,
		`{"schedule":{"delays":["0s","1h"],"tail":"repeat"},"max_age":"72h"}`:       73,
		`{"schedule":{"delays":["0s","1h"],"tail":"repeat"}}`:                       10,
		`{"schedule":{"base":"1s"}}`:                                                10,
		`{"schedule":{"mode":"exponential","base":"1s","max":"1s"},"max_age":"1m"}`: 61,
		`{"max_age":"1h"}`:                     4,
		`{"max_attempts":3}`:                   3,
		`{"max_attempts":null,"max_age":null}`: 10,
	} {
		p := inline(t, raw)
		if got := p.Reach().Attempts; got != want {
			t.Errorf("%s makes %d attempts, want %d", raw, got, want)
		}
	}
}

func TestBreakerForms(t *testing.T) {
	if p := inline(t, `{"breaker":false}`); p.Breaker == nil || !p.BreakerRules().Off {
		t.Errorf("false is %+v", p.Breaker)
	}
	if p := inline(t, `{"breaker":null}`); p.Breaker != nil || p.BreakerRules() != DefaultBreaker() {
		t.Errorf("null is %+v", p.Breaker)
	}
}

func TestPresetsAreWrittenAsTheContractSays(t *testing.T) {
	p, _ := Preset("paylera")
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"paylera","preset":"paylera","timeout":"10s","schedule":{"mode":"since_previous","delays":["0s","15s","1m","5m","30m",` +
		`"2h","6h","12h","24h"],"tail":"stop"},"jitter":0,"success":["2xx"],"classify":{"410":"retry","429":"throttle"},` +
		`"retry_after":"extend","on_exhausted":"dead_letter","then":"advance","disable":{"consecutive":100,"of":"status_4xx",` +
		`"after":"0s","pending":"drop"},"breaker":null,"limits":[],"max_attempts":9,"max_age":null}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, p := range Presets() {
		raw, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		var back Policy
		if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, p) {
			t.Errorf("%s comes back as %+v: %v", raw, back, err)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestPresetsAreCopies(t *testing.T) {
	a, _ := Preset("sent")
	a.Schedule.Delays[0] = hour
	a.Success[0] = "200"
	a.Classify["404"] = Fail
	b, _ := Preset("sent")
	if b.Schedule.Delays[0] != 0 || b.Success[0] != "2xx" || b.Classify["404"] != "" {
		t.Error("a change of one copy shows in the next")
	}
}

func TestErrorsUnderAPointer(t *testing.T) {
	_, err := Parse([]byte(`{"timeout":1}`))
	var errs Errors
	if !errors.As(err, &errs) || errs.Under("/policy")[0].Pointer != "/policy/timeout" {
		t.Errorf("%v", err)
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", 90 * time.Minute: "1h30m", 24 * time.Hour: "24h",
		time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s", -10 * time.Minute: "-10m", 10 * time.Second: "10s",
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
		var back Duration
		if err := json.Unmarshal([]byte(`"`+want+`"`), &back); err != nil || back.Std() != d {
			t.Errorf("%q comes back as %v: %v", want, back, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range Presets() {
		raw, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"schedule":{"mode":"exponential","base":"1ms","factor":1.0001,"max":"720h"},"max_age":"8784h"}`))
	f.Add([]byte(`{"schedule":{"delays":["0s","x"]},"jitter":{"add":"5s"},"breaker":false,"a":{"a":1,"a":2}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(again)
		if err != nil || !reflect.DeepEqual(p, back) {
			t.Fatalf("%s comes back as %+v: %v", again, back, err)
		}
		if n := p.Plan(Progress{}, time.Time{}, 20); len(n) == 0 {
			t.Fatalf("%s never makes an attempt", again)
		}
	})
}
