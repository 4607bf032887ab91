package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/ondol-app/ondol/internal/event"
	"github.com/ondol-app/ondol/internal/trust"
)

// What is kept of engines, at most.
const (
	maxReferences  = 20   // fingerprints with a reference
	maxQuarantined = 1000 // texts, of all fingerprints
	maxEvidence    = 50
)

// Events of the quarantine.
const (
	KindQuarantined event.Kind = "input.quarantined" // sha256 (its first 12 digits), reason
	KindLifted      event.Kind = "quarantine.lifted" // count
)

// Reference is what an engine of the fingerprint answers to the canaries when
// it is well; nil when that is not known.
func (db *DB) Reference(ctx context.Context, fingerprint string) (*trust.Reference, error) {
	var ref *trust.Reference
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(rows *sql.Rows) error {
			var text, raw []byte
			var kind string
			var made int64
			if err := rows.Scan(&text, &kind, &made, &raw); err != nil {
				return err
			}
			if ref == nil {
				ref = &trust.Reference{Kind: trust.ReferenceKind(kind), At: moment(sql.NullInt64{Int64: made, Valid: true}), Vectors: make(map[trust.Hash][]float32)}
			}
			ref.Vectors[trust.Hash(text)] = floats(raw)
			return nil
		}, "SELECT text, kind, made, vector FROM canaries WHERE fingerprint = ? AND length(text) = 32", fingerprint)
	})
	if err != nil {
		return nil, fmt.Errorf("read canary reference: %w", err)
	}
	return ref, nil
}

// SaveReference replaces the reference of the fingerprint. Those made longest
// ago are forgotten when there are too many.
func (db *DB) SaveReference(ctx context.Context, fingerprint string, ref *trust.Reference) error {
	err := db.update(ctx, func(tx *tx) error {
		if err := tx.exec("DELETE FROM canaries WHERE fingerprint = ?", fingerprint); err != nil {
			return err
		}
		for text, vector := range ref.Vectors {
			if err := tx.exec("INSERT INTO canaries (fingerprint, text, kind, made, vector) VALUES (?, ?, ?, ?, ?)",
				fingerprint, text[:], ref.Kind.String(), stamp(ref.At), rawFloats(vector)); err != nil {
				return err
			}
		}
		return tx.exec(`DELETE FROM canaries WHERE fingerprint NOT IN
			(SELECT fingerprint FROM canaries GROUP BY fingerprint ORDER BY max(made) DESC LIMIT ?)`, maxReferences)
	})
	if err != nil {
		return fmt.Errorf("write canary reference: %w", err)
	}
	return nil
}

func rawFloats(v []float32) []byte {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

func floats(raw []byte) []float32 {
	v := make([]float32, len(raw)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return v
}

// Quarantined lists texts that are not given to an engine of the fingerprint,
// newest first; of every fingerprint when it is empty.
func (db *DB) Quarantined(ctx context.Context, fingerprint string) ([]trust.Quarantined, error) {
	list := []trust.Quarantined{}
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(rows *sql.Rows) error {
			var q trust.Quarantined
			var text []byte
			var at sql.NullInt64
			err := rows.Scan(&q.Fingerprint, &text, &q.Reason, &q.Tokens, &at)
			if err == nil && len(text) == len(trust.Hash{}) {
				q.SHA256, q.At = trust.Hash(text).String(), moment(at)
				list = append(list, q)
			}
			return err
		}, "SELECT fingerprint, text, reason, tokens, at FROM quarantine WHERE ? IN ('', fingerprint) ORDER BY id DESC", fingerprint)
	})
	if err != nil {
		return nil, fmt.Errorf("read quarantine: %w", err)
	}
	return list, nil
}

// Arrest puts a text into quarantine; one that is there stays as it is.
func (db *DB) Arrest(ctx context.Context, q trust.Quarantined) error {
	hash, err := trust.ParseHash(q.SHA256)
	if err == nil {
		err = db.update(ctx, func(tx *tx) error {
			r, err := tx.ExecContext(ctx, "INSERT INTO quarantine (fingerprint, text, reason, tokens, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
				q.Fingerprint, hash[:], q.Reason.String(), q.Tokens, stamp(q.At))
			if err != nil {
				return err
			}
			if n, err := r.RowsAffected(); err != nil || n == 0 {
				return err
			}
			if err := tx.exec("DELETE FROM quarantine WHERE id <= (SELECT max(id) FROM quarantine) - ?", maxQuarantined); err != nil {
				return err
			}
			return tx.tell(KindQuarantined, "sha256", q.SHA256[:12], "reason", q.Reason.String())
		})
	}
	if err != nil {
		return fmt.Errorf("write quarantine: %w", err)
	}
	return nil
}

// Release lets the text of that SHA-256 out, whatever the fingerprint; every
// text when it is empty. It returns how many entries that were.
func (db *DB) Release(ctx context.Context, hash string) (int, error) {
	var text []byte
	if hash != "" {
		h, err := trust.ParseHash(hash)
		if err != nil {
			return 0, fmt.Errorf("lift quarantine: %w", err)
		}
		text = h[:]
	}
	var released int64
	err := db.update(ctx, func(tx *tx) error {
		r, err := tx.ExecContext(ctx, "DELETE FROM quarantine WHERE ? IS NULL OR text = ?", text, text)
		if err != nil {
			return err
		}
		if released, err = r.RowsAffected(); err != nil || released == 0 {
			return err
		}
		return tx.tell(KindLifted, "count", strconv.FormatInt(released, 10))
	})
	if err != nil {
		return 0, fmt.Errorf("lift quarantine: %w", err)
	}
	return int(released), nil
}

// AddEvidence keeps what is known of something that went wrong.
func (db *DB) AddEvidence(ctx context.Context, e trust.Evidence) error {
	body, err := json.Marshal(e)
	if err == nil {
		err = db.update(ctx, func(tx *tx) error {
			if err := tx.exec("INSERT INTO evidence (body) VALUES (?)", string(body)); err != nil {
				return err
			}
			return tx.exec("DELETE FROM evidence WHERE id <= (SELECT max(id) FROM evidence) - ?", maxEvidence)
		})
	}
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}

// Evidence lists what was kept, newest first.
func (db *DB) Evidence(ctx context.Context) ([]trust.Evidence, error) {
	list := []trust.Evidence{}
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(rows *sql.Rows) error {
			var id int64
			var body string
			if err := rows.Scan(&id, &body); err != nil {
				return err
			}
			var e trust.Evidence
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				return err
			}
			e.ID = id
			list = append(list, e)
			return nil
		}, "SELECT id, body FROM evidence ORDER BY id DESC")
	})
	if err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	return list, nil
}
