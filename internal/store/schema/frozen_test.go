package schema

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// frozen are the checksums of all steps that were ever released. Databases have taken them, and a
// step that is taken is never taken again: a change of its file reaches new databases only, and
// then a program meets two schemas with one number.
var frozen = map[string]string{
	"sqlite/0001_main_street.sql":     "6cd0cbdfccb840b7e682b6ca2d464e0b8bb48e32bcb18f7f814ebe6b2c226360",
	"sqlite/0002_endpoint_health.sql": "d531269c3df8c1e17fe6acb0935ca8d06ae2268e740ed659e7dda6feb62b4867",
	"sqlite/0003_archive.sql":         "3f4335430a62d6cff07910be50c44aed444933dabf45049c7a5150f31a79e13a",
	"sqlite/0004_replays.sql":         "55d5d3d8277ff5ebf90ce18b3c46e90d78fc951ee283402c8e6b9f5e98be371f",
	"sqlite/0005_outcomes.sql":        "604118f98b491c030b116173a89bf39f4ade1499b808fd038b57023da5bc2c24",
	"sqlite/0006_leases.sql":          "95c4e1ac70766d4413c8946227e888ae3a259ee77bd4ef35a4b54c1f7ba3885d",
	"sqlite/0007_sources.sql":         "ce93226d84a905286ee898f729fe2a6f0350b09f5654d047dced9d650991ce63",
	"sqlite/0008_letters.sql":         "60961d70b3af4db06936155cd3179ad6e7129d33f2308eb0f06894ca3ce55bc7",
	"sqlite/0009_ids_by_tenant.sql":   "e19bb0701388972ee69030d7bd4615cdb79a039aa8014b42f827375a9edb1e79",
	"sqlite/0010_id_key.sql":          "63f34e2282fa55c0df6b93af4e914b98ddbd3324530de1f00845a7f0fe2435f6",
	"sqlite/0011_event_types.sql":     "5d8a9fdc94e03479e36c63b41c54335c42e40369927dc3498ea67391dc8c79e3",
	"sqlite/0012_documents.sql":       "fc51266b38dc6f087e531f1ca3de4306b4647dcd113c6cbda54e8fcc97178ece",
	"sqlite/0013_stats.sql":           "8d2ee07330677511657951f82fb1363bb4ed474d1b27aa87648a3a3d045f95ec",
	"sqlite/0014_journal.sql":         "fb3d9657b79ac81a85698ee2eb0d6c87fcdd7958d5731cbc49c5a04d32e9a232",
	"sqlite/0015_endings.sql":         "901e1c6fbb8606b1202f6d0f1514739d3b10fbe3d15ed66e5008b1106c9885a5",
	"sqlite/0016_data_file.sql":       "6e82c1e57724fa998f7b4d40697f5d0f8357b1317c161ff4f503837c16e1dc0b",
	"sqlite/0017_files.sql":           "25ca2678690546f6b8ddf28832f910345cb4a095ff26fa3299dbd647a194ba72",
	"postgres/0001_main_street.sql":   "95445c2d76b15e4230312c83747d7ba619f895b573e719782e31238836db271c",
	"postgres/0002_archive.sql":       "e0a25a8bded7a6075f0ec77dae9747f68351868e6c48e2bcb8ddb19e0047c567",
	"postgres/0003_ownership.sql":     "8566dc9588388adb48963bb3f0a2fd4067f30ece9f124b3d8ddaff19add47710",
	"postgres/0004_peers.sql":         "012d72eeaf9b68b504eb3c8a1eb11a5ac1481df687d50e0dcb49d6320e767c14",
	"postgres/0005_tenancy.sql":       "300c6229bddd44ae6effbf89b8e2f88519de36875290c2b9bfbf581efdbcbc74",
	"postgres/0006_days.sql":          "a04da4c539fcdc9cc58b3c00bae847ae1a46499bb0d435b46bfc496d040e770f",
	"postgres/0007_named.sql":         "060c2e1f1cd9381568eb7860a06050f3a4b181531eff11fbd50f2ad5a31cd9f0",
	"postgres/0008_changes.sql":       "fc7a6e9de7f42ef8c1901a17f0370e865a6d04b88f8fe706dcdb4829c0267bc8",
	"postgres/0009_ids_by_tenant.sql": "ac99bb8abab69a37a54933f3aebad202003c4cb6f14642d3361f6247cfa8e7ac",
	"postgres/0010_id_key.sql":        "fb92247b32bc7a9e4ac2be5791f466065bb2ba0a03cc5fefb5188518642aad6f",
	"postgres/0011_event_types.sql":   "cc8591d3fd05458171a4cbb3435f37ac55a958cc865859c46649d37c7372c87c",
	"postgres/0012_documents.sql":     "aa1c7afa5056487a25591ffa9948a47836d0fae0fb7f085d167ad1b9c2872ae1",
	"postgres/0013_stats.sql":         "3d140a075785b3e4b773881fd3fe41e145ce6db2c3dfdaf965667522956f11a0",
	"postgres/0014_node_version.sql":  "8eaf019cdd575d386c8d953649f42d30072e01a2cf97fd7439f27a74c5bc491b",
	"postgres/0015_one_database.sql":  "c4a3e29fbaa6bbdcf964edca3a3c684ca7110fd6e574c83aa6549c2498a50bb0",
}

// headers are the lines that say what a step costs, which may become clearer.
var headers = regexp.MustCompile(`(?m)\A(-- (creates|cost): .*\n)+`)

// TestStepsAreFrozen fails when a step is changed, removed or renamed, and when a new one has no
// checksum yet.
func TestStepsAreFrozen(t *testing.T) {
	for name, message := range unlike(t, "..", frozen) {
		t.Errorf("%s: %s", name, message)
	}
}

// unlike returns the faults of the steps of the stores in a directory.
func unlike(t *testing.T, dir string, frozen map[string]string) map[string]string {
	t.Helper()
	wrong := map[string]string{}
	for name := range frozen {
		wrong[name] = "the step is gone; databases have taken it, so put it back"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "migrations", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join(filepath.Base(filepath.Dir(filepath.Dir(file))), filepath.Base(file))
		switch sum := fmt.Sprintf("%x", sha256.Sum256(headers.ReplaceAll(text, nil))); frozen[name] {
		case sum:
			delete(wrong, name)
		case "":
			wrong[name] = "the step is new; if it is complete, add its checksum " + sum
		default:
			wrong[name] = "the step has changed; databases have taken it as it was, so undo that and add a new step instead"
		}
	}
	return wrong
}

// TestFrozenStepsAreCompared changes, removes and adds a step.
func TestFrozenStepsAreCompared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "migrations")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{"some/0003_gone.sql": "x"}
	for name, text := range map[string]string{"0001_same.sql": "a", "0002_changed.sql": "b", "0004_new.sql": "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sums["some/"+name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	sums["some/0002_changed.sql"] = "y"
	delete(sums, "some/0004_new.sql")
	wrong := unlike(t, filepath.Dir(filepath.Dir(dir)), sums)
	for name, want := range map[string]string{"some/0002_changed.sql": "add a new step instead", "some/0003_gone.sql": "put it back",
		"some/0004_new.sql": "add its checksum"} {
		if !strings.Contains(wrong[name], want) {
			t.Errorf("%s: %q", name, wrong[name])
		}
	}
	if len(wrong) != 3 {
		t.Errorf("wrong are %v", wrong)
	}
}
