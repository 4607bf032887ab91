package models

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// huggingFace lists the hub's cache: models--OWNER--REPO/snapshots/REVISION/FILE,
// where FILE is a link into blobs. The revision that refs/main names comes
// first, so that a file of several revisions is told as the present one's.
func huggingFace(ctx context.Context, hub string) ([]candidate, error) {
	repos, err := os.ReadDir(hub)
	if err != nil {
		return nil, err
	}
	var found []candidate
	for _, repo := range repos {
		name, ok := strings.CutPrefix(repo.Name(), "models--")
		if !ok {
			continue
		}
		snapshots := filepath.Join(hub, repo.Name(), "snapshots")
		revisions, readErr := os.ReadDir(snapshots)
		if readErr != nil {
			if !os.IsNotExist(readErr) && err == nil {
				err = readErr
			}
			continue
		}
		main, _ := os.ReadFile(filepath.Join(hub, repo.Name(), "refs", "main")) // not there: any order will do
		present := strings.TrimSpace(string(main))
		sort.SliceStable(revisions, func(i, j int) bool {
			return revisions[i].Name() == present && revisions[j].Name() != present
		})
		owner := strings.ReplaceAll(name, "--", "/")
		for _, revision := range revisions {
			walkErr := walk(ctx, filepath.Join(snapshots, revision.Name()), func(path, rel string) {
				found = append(found, candidate{path, owner + ":" + filepath.ToSlash(rel)})
			})
			if err == nil {
				err = walkErr
			}
		}
	}
	return found, err
}
