package importer

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Columns are the columns that a file may have besides header.NAME and label.NAME. Only url has to
// be there.
var Columns = []string{"url", "tenant", "id", "types", "secret", "description", "filter", "status", "rate", "format"}

// table is a file as it is read.
type table struct {
	rows    *csv.Reader
	columns []string
	faults  []error
	seen    map[string]int // line of each endpoint, by tenant and id
}

// CSV reads endpoints from a file. Its error joins all faults, each with its line and column; then
// no endpoint is returned.
func CSV(from io.Reader, b Bounds) (*Found, error) {
	b = bounds.Fill(b)
	text, err := io.ReadAll(io.LimitReader(from, b.File+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > b.File {
		return nil, grapnel.Errorf(grapnel.CodeTooLarge, "the file has more than %d bytes; --bound sets another limit", b.File)
	}
	t := &table{rows: csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff"))), seen: map[string]int{}}
	t.rows.FieldsPerRecord = -1
	found := &Found{System: "csv"}
	for first := true; ; first = false {
		row, err := t.rows.Read()
		if errors.Is(err, io.EOF) {
			if first {
				t.fault(1, 1, "", "the file is empty; its first line has the names of the columns: "+strings.Join(Columns, ","))
			}
			break
		}
		if err != nil { // where the next row begins is unknown
			if wrong, is := errors.AsType[*csv.ParseError](err); is {
				t.fault(wrong.Line, wrong.Column, "", wrong.Err.Error())
			}
			break
		}
		switch {
		case first:
			t.head(row)
			if len(t.faults) > 0 { // the cells of the rows have no meaning
				return nil, errors.Join(t.faults...)
			}
		case len(found.Wants) == b.Objects:
			return nil, grapnel.Errorf(grapnel.CodeTooLarge, "the file has more than %d rows; --bound sets another limit", b.Objects)
		default:
			found.Wants = append(found.Wants, t.row(row))
		}
	}
	if len(t.faults) > 0 {
		return nil, errors.Join(t.faults...)
	}
	return found, nil
}

func (t *table) fault(line, column int, name, detail string) {
	t.faults = append(t.faults, &Fault{Line: line, Column: column, Name: name, Detail: detail})
}

// at adds a fault of a cell of the row that was read last.
func (t *table) at(cell int, detail string) {
	line, column := t.rows.FieldPos(cell)
	name := ""
	if cell < len(t.columns) {
		name = t.columns[cell]
	}
	t.fault(line, column, name, detail)
}

// head reads the names of the columns.
func (t *table) head(row []string) {
	for i, name := range row {
		name = strings.TrimSpace(name)
		kind, rest, dotted := strings.Cut(name, ".")
		switch {
		case slices.Contains(t.columns, name):
			t.at(i, "the column is there twice")
		case dotted && kind == "header" && rest != "":
		case dotted && kind == "label" && labelFault(rest, "") == "" && rest != "csv.id" && rest != "csv.mark":
		case !slices.Contains(Columns, name):
			t.at(i, "unknown column; there are "+strings.Join(Columns, ", ")+", header.NAME and label.NAME")
		}
		t.columns = append(t.columns, name)
	}
	if !slices.Contains(t.columns, "url") {
		t.fault(1, 1, "", "the column url is missing")
	}
}

// row reads an endpoint. A cell that is empty is one that is not given.
func (t *table) row(row []string) Want {
	if len(row) != len(t.columns) {
		t.at(min(len(row), len(t.columns))-1, fmt.Sprintf("the row has %d cells, and the first line %d", len(row), len(t.columns)))
		return Want{}
	}
	headers, labels := map[string]string{}, map[string]any{}
	w := Want{Kind: Endpoint, Tenant: grapnel.DefaultTenant, Fields: map[string]any{"url": "", "description": nil, "event_types": nil,
		"filter": nil, "rate_limit": nil, "status": string(grapnel.EndpointEnabled), "format": string(grapnel.FormatStandard),
		"headers": headers, "labels": labels}}
	check := func(cell int, fault string) {
		if fault != "" {
			t.at(cell, fault)
		}
	}
	where := map[string]int{}
	for i, value := range row {
		name := t.columns[i]
		where[name] = i
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		switch kind, rest, _ := strings.Cut(name, "."); kind {
		case "header":
			headers[rest] = value
		case "label":
			labels[rest] = value
			check(i, labelFault(rest, value))
		default:
			check(i, w.cell(name, value))
		}
	}
	address, _ := w.Fields["url"].(string)
	check(where["url"], urlFault(address))
	faults := headerFaults(headers, false)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		t.at(where["header."+name], faults[name])
	}
	if len(labels)+2 > mostLabels {
		t.at(0, fmt.Sprintf("the row has %d labels; at most %d are possible", len(labels), mostLabels-2))
	}
	w.Title = shown(address)
	named, key := "id", w.ID
	if key == "" { // a URL may be longer than a label, and secret
		sum := sha256.Sum256([]byte(address))
		named, w.ID = "url", "url-"+hex.EncodeToString(sum[:markBytes])
	}
	line, _ := t.rows.FieldPos(0)
	if before, is := t.seen[w.Tenant+"\x00"+w.ID]; is {
		t.at(where[named], fmt.Sprintf("line %d has the same tenant and %s", before, named))
	}
	t.seen[w.Tenant+"\x00"+w.ID] = line
	if w.Secret == "" {
		w.lose("secret: the file has none; a new one is made, and grapnel endpoints rotate-secret shows one")
	}
	return w
}

// cell reads one setting, and returns its fault.
func (w *Want) cell(name, value string) (fault string) {
	switch name {
	case "url":
		w.Fields["url"] = value
	case "tenant":
		w.Tenant = value
		return tenantFault(value)
	case "id":
		w.ID = value
		if !labelName.MatchString(value) {
			return "must be 1 to 64 characters of [A-Za-z0-9_.-]"
		}
	case "types":
		types := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" ,;\t\n", c) })
		w.Fields["event_types"] = types
		return typesFault(types)
	case "secret":
		w.Secret = value
		return secretFault(value)
	case "description":
		w.Fields["description"] = value
		return descriptionFault(value)
	case "filter":
		w.Fields["filter"] = value
		return filterFault(value)
	case "status":
		w.Fields["status"] = value
		return oneOf(value, "enabled", "paused", "disabled")
	case "format":
		w.Fields["format"] = value
		return oneOf(value, "standard", "raw", "cloudevents")
	case "rate":
		each, err := strconv.ParseFloat(value, 64)
		if err != nil || !(each >= grapnel.MinPerSecond && each <= grapnel.MaxPerSecond) {
			return fmt.Sprintf("must be requests per second, from %v to %v", grapnel.MinPerSecond, grapnel.MaxPerSecond)
		}
		w.Fields["rate_limit"] = w.rate(&each, 1)
	}
	return ""
}

func oneOf(value string, all ...string) string {
	if slices.Contains(all, value) {
		return ""
	}
	return "must be " + strings.Join(all, ", ")
}
