package sqlite

import (
	"database/sql"
	"errors"
	"path"
	"strconv"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/event"
)

// What the index tells of. Every one is written by the transaction that made it so.
const (
	KindFolderAdded   event.Kind = "folder.added"   // path
	KindFolderRemoved event.Kind = "folder.removed" // path, documents
	KindFolderOffline event.Kind = "folder.offline" // path, reason
	KindFolderDenied  event.Kind = "folder.denied"  // path, reason
	KindFolderBack    event.Kind = "folder.back"    // path: it can be read again
	KindFolderChanged event.Kind = "folder.changed" // path, found, changed, moved, gone: files, as one transaction of a scan saw them

	KindDocumentIndexed event.Kind = "document.indexed" // id, path
	KindDocumentSkipped event.Kind = "document.skipped" // id, path, reason
	KindDocumentFailed  event.Kind = "document.failed"  // id, path, reason: once for the same reason in a row
)

// tellFolder tells of a folder that went away, may not be read, or is back.
// Scanning is no news, so it is compared with the state before that.
func (t *tx) tellFolder(id document.FolderID, state document.FolderState, reason string) error {
	if state == document.FolderScanning {
		return nil
	}
	var root string
	var before document.FolderState
	if err := t.one("SELECT path, settled FROM folders WHERE id = ?", []any{id}, &root, &before); err != nil {
		return notFound(err)
	}
	if state == before {
		return nil
	}
	if err := t.exec("UPDATE folders SET settled = ? WHERE id = ?", string(state), id); err != nil {
		return err
	}
	switch state {
	case document.FolderOffline:
		return t.tell(KindFolderOffline, "path", root, "reason", reason)
	case document.FolderDenied:
		return t.tell(KindFolderDenied, "path", root, "reason", reason)
	}
	return t.tell(KindFolderBack, "path", root)
}

// tellScan tells of the files that a scan found changed. One that was merely
// touched is no news.
func (t *tx) tellScan(id document.FolderID, c document.Changes) error {
	if len(c.Found)+len(c.Changed)+len(c.Moved)+len(c.Gone) == 0 {
		return nil
	}
	var root string
	if err := t.one("SELECT path FROM folders WHERE id = ?", []any{id}, &root); err != nil {
		return notFound(err)
	}
	return t.tell(KindFolderChanged, "path", root, "found", strconv.Itoa(len(c.Found)), "changed", strconv.Itoa(len(c.Changed)),
		"moved", strconv.Itoa(len(c.Moved)), "gone", strconv.Itoa(len(c.Gone)))
}

// tellDocument tells what became of a document.
func (t *tx) tellDocument(kind event.Kind, id document.ID, args ...string) error {
	var root, rel string
	if err := t.one("SELECT f.path, d.path FROM documents d JOIN folders f ON f.id = d.folder_id WHERE d.id = ?", []any{id}, &root, &rel); err != nil {
		return notFound(err)
	}
	return t.tell(kind, append([]string{"id", strconv.FormatInt(int64(id), 10), "path", path.Join(root, rel)}, args...)...)
}

// outcome is the state of a document and the reason for it.
func (t *tx) outcome(id document.ID) (state document.State, reason document.Reason, err error) {
	err = t.one("SELECT state, reason FROM documents WHERE id = ?", []any{id}, &state, &reason)
	return state, reason, notFound(err)
}

// notFound is ErrNotFound for a row that is not there.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return document.ErrNotFound
	}
	return err
}
