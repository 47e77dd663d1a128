package torture

import (
	"encoding/xml"
	"fmt"
	"strings"
)

type suite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Time     string     `xml:"time,attr"`
	Stamp    string     `xml:"timestamp,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Name    string    `xml:"name,attr"`
	Class   string    `xml:"classname,attr"`
	Time    string    `xml:"time,attr"`
	Failure []failure `xml:"failure,omitempty"`
	Skipped *skipped  `xml:"skipped"`
}

type failure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type skipped struct {
	Message string `xml:"message,attr"`
}

// JUnit is the report in the form that CI systems read. A case that is not judged is skipped.
func (r *Report) JUnit() ([]byte, error) {
	s := suite{Name: "grapnel torture " + r.URL, Tests: len(r.Results), Failures: r.Failed, Skipped: r.Skipped,
		Time: fmt.Sprintf("%.3f", r.Took.Seconds()), Stamp: r.Started.UTC().Format("2006-01-02T15:04:05")}
	for _, one := range r.Results {
		c := testCase{Name: one.ID + " " + one.Name, Class: "torture", Time: fmt.Sprintf("%.3f", one.Took.Seconds())}
		for _, f := range one.Findings {
			c.Failure = append(c.Failure, failure{Message: f.Invariant + ": " + f.Shown, Type: f.Invariant,
				Text: f.Defect + "\n" + strings.Join(f.Proof, "\n") + "\nfix:\n" + strings.Join(f.Fix, "\n")})
		}
		if one.Verdict == NotJudged {
			c.Skipped = &skipped{Message: one.Reason}
		}
		s.Cases = append(s.Cases, c)
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}
