package alarm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// The file has the endpoints that alarms go to, with their credentials, and the alarms that were
// told. Only its owner may read it.
//
// It is overwritten in place, in blocks that it already has, because on a full disk no other file
// can be written. A crash in the middle of a write leaves a checksum that does not match: then the
// file counts as empty, and the next round writes it again.

// fileStep is what the size of the file is a multiple of.
const fileStep = 64 << 10

const fileHead = "grapnel alarms %08x %d\n"

// write stores text in the file. This and read are the only places that know its form.
func write(path string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all := append(fmt.Appendf(nil, fileHead, crc32.ChecksumIEEE(text), len(text)), text...)
	all = append(all, bytes.Repeat([]byte{'\n'}, (fileStep-len(all)%fileStep)%fileStep)...)
	if _, err = f.WriteAt(all, 0); err != nil {
		return err
	}
	return f.Sync()
}

// read returns the text in the file; nil: there is no file.
func read(path string) ([]byte, error) {
	all, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var sum uint32
	var size int
	head, rest, _ := bytes.Cut(all, []byte("\n"))
	if _, err := fmt.Sscanf(string(head)+"\n", fileHead, &sum, &size); err != nil || size < 0 || size > len(rest) ||
		crc32.ChecksumIEEE(rest[:size]) != sum {
		return nil, errors.New("its checksum does not match")
	}
	return rest[:size], nil
}

// document is the text in the file.
type document struct {
	Listeners []heard  `json:"listeners"`
	Alarms    []*Alarm `json:"alarms"`
}

// heard is a listener in the file.
type heard struct {
	Rules    []string        `json:"rules"`
	Revision int64           `json:"revision"`
	Endpoint json.RawMessage `json:"endpoint"`
}

// load takes what the file says.
func (k *Keeper) load() {
	k.open.Store(&map[string]int{})
	text, err := read(k.o.Path)
	var d document
	inClear := k.o.Seal != nil && text != nil && !seal.Is(text)
	if err == nil {
		text, err = k.o.Seal.Open(text)
	}
	if err == nil && text != nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		k.log.Warn("the file of alarms cannot be read; it is written anew", "file", k.o.Path, "err", err)
		return
	}
	for _, h := range d.Listeners {
		ep, err := codec.DecodeEndpoint(h.Revision, h.Endpoint)
		if err != nil {
			k.log.Warn("an endpoint in the file of alarms cannot be read; it is left out", "file", k.o.Path, "err", err)
			continue
		}
		k.listeners = append(k.listeners, Listener{&ep, h.Rules})
	}
	k.saved, k.alarms = text, d.Alarms
	if inClear { // from before there was a master key: the first round writes it again
		k.saved, k.dirty = nil, true
	}
}

// save writes the file if it has to say something else than it does.
func (k *Keeper) save() {
	k.writing.Lock()
	defer k.writing.Unlock()
	text, err := k.unwritten()
	if err == nil && text == nil {
		return
	}
	if err == nil {
		var sealed []byte
		if sealed, err = k.o.Seal.Seal(text); err == nil {
			err = write(k.o.Path, sealed)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.saved, k.unsaved = text, 0
		return
	}
	k.dirty = true
	if k.unsaved++; backoff.Tells(k.unsaved) {
		k.log.Warn("the file of alarms cannot be written; a restart may tell them again", "file", k.o.Path, "err", err)
	}
}

// unwritten is the text that the file should have; nil: it has it. What changes during the write is
// written by the next save.
func (k *Keeper) unwritten() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.dirty {
		return nil, nil
	}
	k.dirty = false
	text, err := k.text()
	if err == nil && (bytes.Equal(text, k.saved) || k.saved == nil && len(k.listeners) == 0) {
		return nil, nil
	}
	return text, err
}

func (k *Keeper) text() ([]byte, error) {
	d := document{Listeners: []heard{}, Alarms: k.forFile()}
	for _, l := range k.listeners {
		body, err := codec.EncodeEndpoint(*l.Endpoint)
		if err != nil {
			return nil, err
		}
		d.Listeners = append(d.Listeners, heard{l.Rules, l.Endpoint.Revision, body})
	}
	return json.Marshal(d)
}
