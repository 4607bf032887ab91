package search

import (
	"context"
	"sync"
	"time"

	"github.com/ondol-app/ondol/internal/document"
)

// ledgerAge is how old the figures about the index beside an answer may be. The
// store counts every document for them, which can take as long as the search
// itself; who types, searches several times a second.
const ledgerAge = time.Second

// ledger is what the folders were like when somebody last asked.
type ledger struct {
	mu      sync.Mutex
	asked   time.Time                                  // zero: never; guarded by mu
	index   Index                                      // guarded by mu
	folders map[document.FolderID]document.FolderState // guarded by mu; replaced, never changed
}

// read returns the folders' states and the state of the index, asking the
// store when the last answer is older than ledgerAge.
func (l *ledger) read(ctx context.Context, store Store) (map[document.FolderID]document.FolderState, Index, error) {
	l.mu.Lock()
	folders, index, fresh := l.folders, l.index, !l.asked.IsZero() && time.Since(l.asked) < ledgerAge
	l.mu.Unlock()
	if fresh {
		return folders, index, nil
	}
	asked := time.Now()
	all, err := store.Folders(ctx)
	if err != nil {
		return nil, Index{}, err
	}
	folders, index = make(map[document.FolderID]document.FolderState, len(all)), Index{}
	for i, f := range all {
		folders[f.ID] = f.State
		index.Pending += f.Counts.Pending
		if i == 0 || f.LastScan.Before(index.LastScan) {
			index.LastScan = f.LastScan
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if asked.After(l.asked) {
		l.asked, l.folders, l.index = asked, folders, index
	}
	return folders, index, nil
}
