package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

const root = "../.."

func all(t *testing.T) []*mutant {
	t.Helper()
	ms, err := readAll("patches")
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func TestPatchesApplyToTheCode(t *testing.T) {
	for _, m := range all(t) {
		texts, err := m.changed(root)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		for path, text := range texts {
			if was, err := os.ReadFile(filepath.Join(root, path)); err == nil && string(was) == text {
				t.Errorf("%s: %s is not changed", m.Name, path)
			}
		}
	}
}

func TestPatchesNameTestsThatThereAre(t *testing.T) {
	declared := map[string][]string{}
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, m := range all(t) {
		for _, ts := range m.Tests {
			folder := filepath.Join(root, m.Module, ts.Package)
			if declared[folder] == nil {
				files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
				for _, file := range files {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					for _, match := range name.FindAllStringSubmatch(string(text), -1) {
						declared[folder] = append(declared[folder], match[1])
					}
				}
			}
			for _, test := range ts.Names {
				if !slices.Contains(declared[folder], test) {
					t.Errorf("%s: there is no %s in %s", m.Name, test, folder)
				}
			}
		}
	}
}

func TestPatchesAreToldApart(t *testing.T) {
	seen := map[string]string{}
	for _, m := range all(t) {
		if other := seen[m.Section+m.Group+m.What]; other != "" {
			t.Errorf("%s and %s say the same", other, m.Name)
		}
		seen[m.Section+m.Group+m.What] = m.Name
	}
}
