//go:build prove

package sim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

type coreMutant struct{ rule, line, mutant string }

// coreMutants are rules of the core, each with the line that implements it and the line that breaks
// it. The histories must detect every one of them.
var coreMutants = []coreMutant{
	{"a page that was read before a change came back must not bring the old state in",
		"w.touched[h.Delivery] = true", ""},
	{"a doubled hint is not believed",
		"c.seen.add(sh.Delivery)", ""},
	{"a late hint about what a person ended is not believed",
		"c.seen.add(o.Delivery)", "_ = c.seen"},
	{"a late hint about what was ended while the endpoint was closed is not believed",
		"heads[i].Delivery > ep.floor && ", ""},
	{"a change whose fate is unknown is repeated",
		"c.emit(Record{h.change})\n\t\t\tcontinue", "continue"},
	{"heads are read now and then although no hint came",
		"polled := !ep.pollAt.After(now)", "polled := false && !ep.pollAt.After(now)"},
	{"pending deliveries are ended only once none is in flight",
		"len(ep.window.heads) > 0 || ", ""},
	{"an endpoint gets no more requests at once than its limit",
		"case g.running >= g.limit || ", "case "},
	{"an endpoint gets no more attempts in a second than its rate limit",
		"g.paid = latest(g.paid, now).Add(g.interval)", "_ = now"},
	{"there are no more attempts than slots",
		"for c.running < c.options.Slots && ", "for "},
	{"a draining node starts nothing",
		"c.draining = true", ""},
	{"a delivery left to the store comes back at its time",
		"func (w *window) chill(due time.Time) { w.cold = earliest(w.cold, due) }", "func (w *window) chill(time.Time) {}"},
	{"the age and the schedule count from the first attempt",
		"v.progress.Anchor = in.Attempt.StartedAt", "v.progress.Anchor = in.Attempt.StartedAt.Add(-20e9)"},
	{"a closed endpoint starts nothing",
		"ep.window.park() // and", "_ = 0 // and"},
	{"a closed endpoint admits nothing",
		"is.Next != nil && ep.open()", "is.Next != nil"},
	{"an order on a delivery outside of memory keeps pages from starting it",
		"ep.window.heads[o.Delivery] = h", "ep.window.heads[-o.Delivery] = h"},
	{"an order takes its delivery out of the reserve",
		"		ep.window.reserve.remove(o.Delivery)\n", ""},
	{"a closed endpoint forgets its reserve",
		"	w.reserve.clear()\n", ""},
	{"while the breaker is open there is one probe at a time",
		"!g.probing && !g.standing", "!g.standing"},
	{"a probe waits for its time",
		"!g.probing && !g.standing.ProbeAt.After(now)", "!g.probing"},
	{"what an outcome led to is recorded with it",
		"	ch.Standing = ep.standing()\n", ""},
	{"what a person's change led to is recorded",
		"\n\tc.keep(now, ep)\n", "\n"},
	{"a restart goes on with the standing on record",
		"g.standing, g.number = st.Standing, st.Number", "g.number = st.Number"},
	{"an endpoint's return makes due what waited for it",
		"		ep.makeDue = true\n		h.returns", "		h.returns"},
	{"a page of deliveries that were made due is read",
		"			ep.window.forgetPlans(now)\n", ""},
	{"an endpoint that is back gets one request first",
		"		g.ramp.Begin(s.Ended)\n", ""},
	{"an endpoint that asked to be spared is spared",
		"case g.standing.HoldUntil.After(now):", "case false:"},
	{"pending deliveries of an endpoint with an open circuit end with max_age",
		"	c.expire(now, ep)\n", ""},
	{"pending deliveries end no earlier",
		"!h.urgent() && now.After(began.Add(longest)) {", "!h.urgent() && now.After(began.Add(longest / 2)) {"},
	{"a sentence that was not carried out is carried out after the restart",
		"		c.carryOut(now, ep)\n", ""},
	{"whoever enables an endpoint begins anew",
		"		g.restart(now)\n", ""},
	{"half of the slots are kept for first attempts",
		"case h.again() && q.again.used >= c.part(2):", "case false:"},
	{"one tenant leaves half of the places for retries to the others",
		"case h.again() && q.several() && t.again.used >= c.part(4):", "case false:"},
	{"a host gets no more requests of a tenant at once than its limit",
		"case host.used >= c.options.PerHost:", "case false:"},
}

// leaveMutants are rules by which an endpoint goes from one node to another. The histories of
// several nodes must notice.
var leaveMutants = []coreMutant{
	{"an endpoint is left once nothing of it is under way",
		"if len(ep.window.heads) == 0 && !ep.window.loading &&", "if true ||"},
	{"an endpoint that is being left starts nothing",
		" && ep.unended == nil && !ep.leaving", " && ep.unended == nil"},
	{"heads of an endpoint that is being left are left to the store",
		"	ep.leaving = true\n	ep.window.park()", "	ep.leaving = true"},
	{"an endpoint is left although nothing of it happens any more",
		"	c.depart(ep)\n", ""},
	{"the new owner of an endpoint reads its heads",
		"	ep.window.chill(now)\n	ep.floor = ep.newest", "	ep.floor = ep.newest"},
	{"the new owner of an endpoint knows that hints may be about finished deliveries",
		"	ep.floor = ep.newest\n", ""},
	{"who gets an endpoint goes on with its standing",
		"g.standing, g.number = st.Standing, st.Number", "g.number = st.Number"},
	{"a page on its way keeps an endpoint from being left",
		"if len(ep.window.heads) == 0 && !ep.window.loading", "if len(ep.window.heads) == 0"},
}

// TestCoreMutantsAreCaught plays seeds on a core with one rule left out at a time, until one
// notices.
func TestCoreMutantsAreCaught(t *testing.T) { areCaught(t, coreMutants, "TestSeeds") }

// TestLeaveMutantsAreCaught does the same with several nodes.
func TestLeaveMutantsAreCaught(t *testing.T) { areCaught(t, leaveMutants, "TestClusterSeeds") }

// TestClusterMutantsAreCaught: each rule by which nodes share a store is left out in turn, and some
// histories must notice.
func TestClusterMutantsAreCaught(t *testing.T) {
	for _, m := range ClusterMutants() {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			// For mutants that few seeds notice, the search begins shortly before the first seed that did.
			first := map[Mutant]uint64{
				ReadsTooEarly: 310, CountsFromTheAnswer: 140, AnswersUnconfirmed: 110, RenewsUninformed: 1200, HasNoDeadline: 40,
			}[m]
			for seed := first; seed < first+3000; seed++ {
				if out := RunCluster(Options{Seed: seed, Mutant: m}); len(out.broken()) > 0 {
					t.Logf("caught by seed %d: %s", seed, out.broken()[0])
					return
				}
			}
			t.Error("3000 histories did not notice")
		})
	}
}

// wishMutants are rules about wishes, which those histories must notice.
var wishMutants = []coreMutant{
	{"a delivery that its receiver stopped is rejected",
		", v.step.Decision == policy.Fail && v.in.Outcome.Wish == policy.WishStop:", ":"},
	{"a success can disable",
		"Disables: step.Disables && !v.test, ", ""},
}

// TestWishMutantsAreCaught plays seeds on a core with one of these rules left out at a time.
func TestWishMutantsAreCaught(t *testing.T) { areCaught(t, wishMutants, "TestWishSeeds") }

// seldom are rules that few histories notice. For these the search begins shortly before the first
// seed that did.
var seldom = map[string]int{
	"a closed endpoint admits nothing":                                        3660,
	"a closed endpoint forgets its reserve":                                   12570,
	"a closed endpoint starts nothing":                                        390,
	"a page of deliveries that were made due is read":                         240,
	"an endpoint's return makes due what waited for it":                       220,
	"pending deliveries of an endpoint with an open circuit end with max_age": 9860,
	"what a person's change led to is recorded":                               2020,
}

// areCaught builds a core from which each of the rules can be left out, and has a test look for a
// seed that notices, for each rule.
func areCaught(t *testing.T, mutants []coreMutant, test string) {
	binary := buildMutants(t, mutants)
	for n, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			m.isCaughtBy(t, binary, n+1, test)
		})
	}
}

// isCaughtBy leaves the rule with this number out, and runs a test's seeds.
func (m *coreMutant) isCaughtBy(t *testing.T, binary string, number int, test string) {
	cmd := exec.Command(binary, "-test.cpu", "1", "-test.run", "^"+test+"$", "-first", fmt.Sprint(seldom[m.rule]+1), "-seeds", "4000",
		"-keep=false") //nolint:gosec // just built
	cmd.Env = append(os.Environ(), fmt.Sprint(mutantVariable, "=", number))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		t.Fatalf("4000 histories did not notice (%v)", err)
	}
	which, what, found := strings.Cut(string(out), " breaks a promise:\n")
	if !found {
		t.Fatalf("it failed, but not because a promise was broken:\n%s", out)
	}
	what, _, _ = strings.Cut(what, "\n")
	t.Logf("caught by %s: %s", which[strings.LastIndex(which, "seed "):], strings.TrimSpace(what))
}
