package main

import "testing"

// TestPagesUsePlainWords: pages for users name the thing, in the settled words.
func TestPagesUsePlainWords(t *testing.T) {
	t.Chdir(root)
	held := 0
	for _, page := range append(pages(t), "CHANGELOG.md") {
		if forContributors(page) {
			continue
		}
		held++
		for _, fault := range plain(page, read(t, page)) {
			t.Error(fault)
		}
	}
	if held < 20 {
		t.Errorf("only %d pages are for users", held)
	}
}
