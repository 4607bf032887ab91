package document

import "time"

// FolderID names a watched folder in the database; 0 is no folder.
type FolderID int64

// FolderState says whether a watched folder can be read now.
type FolderState string

const (
	// FolderWatching means the folder is being watched and was last scanned at Folder.LastScan.
	FolderWatching FolderState = "watching"
	// FolderScanning means a scan is under way.
	FolderScanning FolderState = "scanning"
	// FolderOffline means the root is missing (an unmounted volume, a moved
	// folder). Its documents are kept: absence is never taken for deletion.
	FolderOffline FolderState = "offline"
	// FolderDenied means the system refuses to list the root.
	FolderDenied FolderState = "denied"
)

// String returns the state as it stands in the database and in JSON.
func (s FolderState) String() string { return string(s) }

// Folder is one root whose files are kept searchable.
type Folder struct {
	ID       FolderID    `json:"id"`
	Path     string      `json:"path"` // absolute, symlinks resolved, bytes as the system gave them
	State    FolderState `json:"state"`
	Reason   string      `json:"reason,omitempty"`   // why offline or denied
	LastScan time.Time   `json:"last_scan,omitzero"` // end of the last complete scan
	Added    time.Time   `json:"added"`              // when its owner chose it
	Counts   Counts      `json:"counts"`             // the ledger of this folder
}

// Standing is what a search has to know of the folders, cheap to read.
type Standing struct {
	Folders  map[FolderID]FolderState
	Pending  int64     // documents of all folders that are found or embedding
	LastScan time.Time // the oldest of the folders' last complete scans; zero where one had none yet
}

// Counts is the ledger: every file that a scan found is in exactly one of the
// other columns, so Found = Indexed + Skipped + Failed + Pending at every moment.
type Counts struct {
	Found   int64            `json:"found"`
	Indexed int64            `json:"indexed"` // searchable by word and by meaning now
	Skipped int64            `json:"skipped"`
	Failed  int64            `json:"failed"`
	Pending int64            `json:"pending"`           // found or embedding
	Chunks  int64            `json:"chunks"`            // pieces of text searchable by word
	Reasons map[Reason]int64 `json:"reasons,omitempty"` // skipped and failed, by reason
}

// Add sums two ledgers.
func (c Counts) Add(o Counts) Counts {
	sum := Counts{
		Found: c.Found + o.Found, Indexed: c.Indexed + o.Indexed, Skipped: c.Skipped + o.Skipped,
		Failed: c.Failed + o.Failed, Pending: c.Pending + o.Pending, Chunks: c.Chunks + o.Chunks,
	}
	for _, m := range []map[Reason]int64{c.Reasons, o.Reasons} {
		for r, n := range m {
			if sum.Reasons == nil {
				sum.Reasons = make(map[Reason]int64)
			}
			sum.Reasons[r] += n
		}
	}
	return sum
}
