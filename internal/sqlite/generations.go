package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/event"
)

// What is told of generations. Every one is written by the transaction that made it so.
const (
	KindGenerationBuilding   event.Kind = "generation.building"    // model, dimension, texts: a new kind of vector is being made
	KindGenerationReady      event.Kind = "generation.ready"       // model, texts: none is missing; it waits for its engine to be taken into service
	KindGenerationActive     event.Kind = "generation.active"      // model, missing: it is searched from now on
	KindGenerationRetired    event.Kind = "generation.retired"     // model: another one is searched from now on
	KindGenerationRolledBack event.Kind = "generation.rolled_back" // model, missing: one that was retired is searched again
	KindGenerationRemoved    event.Kind = "generation.removed"     // model
)

// generation is a row of generations.
type generation struct {
	id int64
	document.Generation
}

// base is what is added to a text's id to name its vector. Ids of generations
// begin at 1, so the base of one that is not there meets no vector.
func (g generation) base() int64 { return g.id << textBits }

// generationColumns are what scanGeneration reads, of generations g.
const generationColumns = `g.id, g.name, g.dim, g.model, g.build, g.recipe, g.state, g.created, g.completed, g.activated, g.retired, g.used,
	g.vectors, g.embedded, (SELECT texts FROM tally)`

func scanGeneration(r interface{ Scan(...any) error }) (generation, error) {
	var g generation
	var created, used int64
	var completed, activated, retired sql.NullInt64
	err := r.Scan(&g.id, &g.Fingerprint, &g.Dim, &g.Model, &g.Build, &g.Recipe, &g.State, &created, &completed, &activated, &retired, &used,
		&g.Vectors, &g.Embedded, &g.Texts)
	g.Created, g.Used = time.Unix(0, created).UTC(), time.Unix(0, used).UTC()
	g.Completed, g.Activated, g.Retired = moment(completed), moment(activated), moment(retired)
	g.Bytes = VectorBytes(g.Dim, g.Vectors)
	return g, err
}

// VectorBytes is what n vectors of a dimension take on disk, to about a tenth:
// a row has the vector in half precision and about 16 bytes more, and lies on
// one page with as many others as fit
// (https://www.sqlite.org/fileformat.html#b_tree_pages).
func VectorBytes(dim int, n int64) int64 {
	const head = 8 // bytes of a leaf page before its cells
	row := 2*int64(dim) + 16
	if fit := (pageSize - head) / row; fit > 0 {
		return (n + fit - 1) / fit * pageSize
	}
	return n * ((row + pageSize - 1) / pageSize * pageSize)
}

// VectorCost is what a generation of the dimension would take on disk for all
// texts there are now, and how many those are.
func (db *DB) VectorCost(ctx context.Context, dim int) (bytes, texts int64, err error) {
	err = db.view(ctx, func(tx *tx) error { return tx.one("SELECT texts FROM tally", nil, &texts) })
	if err != nil {
		return 0, 0, fmt.Errorf("count texts: %w", err)
	}
	return VectorBytes(dim, texts), texts, nil
}

// Generations lists the generations, oldest first, all of the same moment.
func (db *DB) Generations(ctx context.Context) ([]document.Generation, error) {
	var all []document.Generation
	err := db.view(ctx, func(tx *tx) error {
		return tx.each(func(r *sql.Rows) error {
			g, err := scanGeneration(r)
			all = append(all, g.Generation)
			return err
		}, "SELECT "+generationColumns+" FROM generations g ORDER BY g.id")
	})
	if err != nil {
		return nil, fmt.Errorf("list generations: %w", err)
	}
	return all, nil
}

// Serve records that vectors of maker are what queries are embedded to from
// now on: its generation becomes active where it may (see
// docs/adr/0005-generations.md), and every document is indexed or embedding by
// what it has of that generation. It returns the generation as it stands then,
// and how many documents became embedding.
func (db *DB) Serve(ctx context.Context, maker document.Maker) (g document.Generation, embedding int64, err error) {
	err = db.update(ctx, func(tx *tx) error {
		own, err := tx.open(maker)
		if err != nil {
			return err
		}
		switch active, err := tx.active(); {
		case err != nil:
			return err
		case own.State == document.Active:
		case active == 0 || !own.Completed.IsZero():
			err = tx.activate(own, active)
			if err != nil {
				return err
			}
		case own.State != document.Building:
			if err := tx.build(own); err != nil {
				return err
			}
		}
		if embedding, err = tx.measure(own); err != nil {
			return fmt.Errorf("set states: %w", err)
		}
		g, err = tx.finish(own.id, true, 0)
		return err
	})
	if err != nil {
		return document.Generation{}, 0, fmt.Errorf("take generation %s into service: %w", maker.Fingerprint, err)
	}
	return g, embedding, nil
}

// Feed records that an engine beside the one in service makes vectors of
// maker, and returns their generation, which is new or goes on where it stood.
func (db *DB) Feed(ctx context.Context, maker document.Maker) (g document.Generation, err error) {
	err = db.update(ctx, func(tx *tx) error {
		own, err := tx.open(maker)
		if err == nil && own.State == document.Retired && own.Completed.IsZero() {
			err = tx.build(own)
		}
		if err != nil {
			return err
		}
		g, err = tx.reread(own.id)
		return err
	})
	if err != nil {
		return document.Generation{}, fmt.Errorf("open generation %s: %w", maker.Fingerprint, err)
	}
	return g, nil
}

// Finish makes a generation ready when it misses no more than the given number
// of texts, which its engine refused. That of the engine in service is made
// active when no document waits for a vector any more.
func (db *DB) Finish(ctx context.Context, fingerprint string, inService bool, refused int64) (g document.Generation, err error) {
	err = db.update(ctx, func(tx *tx) error {
		own, err := tx.generation(fingerprint)
		if err != nil {
			return err
		}
		if own.id == 0 {
			return document.ErrNotFound
		}
		g, err = tx.finish(own.id, inService, refused)
		return err
	})
	if err != nil {
		return document.Generation{}, fmt.Errorf("finish generation %s: %w", fingerprint, err)
	}
	return g, nil
}

// open returns the generation of maker, in use now and described as maker
// describes it. A new one is active when there is none, else building.
func (t *tx) open(maker document.Maker) (generation, error) {
	if maker.Fingerprint == "" || maker.Dim <= 0 {
		return generation{}, fmt.Errorf("fingerprint %q with dimension %d names no vectors", maker.Fingerprint, maker.Dim)
	}
	g, err := t.generation(maker.Fingerprint)
	switch {
	case err != nil:
		return generation{}, err
	case g.id == 0:
		return t.begin(maker)
	case g.Dim != maker.Dim:
		return generation{}, fmt.Errorf("fingerprint %s has dimension %d, not %d", maker.Fingerprint, g.Dim, maker.Dim)
	}
	g.Maker = maker
	return g, t.exec("UPDATE generations SET model = ?, build = ?, recipe = ?, used = ? WHERE id = ?", maker.Model, maker.Build, maker.Recipe, t.now, g.id)
}

// generation reads the one of a fingerprint. Where there is none its id is 0,
// and it is one that is about to be built.
func (t *tx) generation(fingerprint string) (generation, error) {
	g, err := scanGeneration(t.QueryRowContext(t.ctx, "SELECT "+generationColumns+" FROM generations g WHERE g.name = ?", fingerprint))
	if errors.Is(err, sql.ErrNoRows) {
		g = generation{Generation: document.Generation{Maker: document.Maker{Fingerprint: fingerprint}, State: document.Building}}
		err = t.one("SELECT texts FROM tally", nil, &g.Texts)
	}
	return g, err
}

// begin makes the generation of a new maker.
func (t *tx) begin(maker document.Maker) (generation, error) {
	if err := t.exec("INSERT INTO generations (name, dim, model, build, recipe, created, used) VALUES (?, ?, ?, ?, ?, ?, ?)",
		maker.Fingerprint, maker.Dim, maker.Model, maker.Build, maker.Recipe, t.now, t.now); err != nil {
		return generation{}, err
	}
	g, err := t.generation(maker.Fingerprint)
	if err != nil {
		return generation{}, err
	}
	active, err := t.active()
	switch {
	case err != nil:
		return generation{}, err
	case active != 0:
		return g, t.build(g)
	}
	g.State = document.Active
	return g, t.exec("UPDATE generations SET state = 'active', activated = ? WHERE id = ?", t.now, g.id)
}

// active is the id of the active generation; 0 for none.
func (t *tx) active() (id int64, err error) {
	err = t.one("SELECT id FROM generations WHERE state = 'active'", nil, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// build makes a generation building.
func (t *tx) build(g generation) error {
	if err := t.exec("UPDATE generations SET state = 'building', retired = NULL WHERE id = ?", g.id); err != nil {
		return err
	}
	return t.tell(KindGenerationBuilding, "model", g.Model, "dimension", strconv.Itoa(g.Dim), "texts", strconv.FormatInt(g.Texts, 10))
}

// activate makes g active in the place of the one with the id old, 0 for none.
func (t *tx) activate(g generation, old int64) error {
	if old != 0 {
		var model string
		if err := t.one("UPDATE generations SET state = 'retired', retired = ?, used = ? WHERE id = ? RETURNING model", []any{t.now, t.now, old}, &model); err != nil {
			return err
		}
		if err := t.tell(KindGenerationRetired, "model", model); err != nil {
			return err
		}
	}
	if err := t.exec("UPDATE generations SET state = 'active', activated = ?, retired = NULL WHERE id = ?", t.now, g.id); err != nil {
		return err
	}
	kind := KindGenerationActive
	if g.State == document.Retired {
		kind = KindGenerationRolledBack
	}
	return t.tell(kind, "model", g.Model, "missing", strconv.FormatInt(g.Missing(), 10))
}

// finish is Finish for the generation with this id.
func (t *tx) finish(id int64, inService bool, refused int64) (document.Generation, error) {
	now, err := t.reread(id)
	if err != nil || !now.Completed.IsZero() {
		return now, err
	}
	own := generation{id, now}
	lacking := now.Missing() > refused
	if inService {
		lacking, err = t.awaited(own.base())
	}
	if err != nil || lacking || now.State == document.Active && now.Vectors == 0 {
		return now, err
	}
	if err := t.exec("UPDATE generations SET completed = ? WHERE id = ?", t.now, id); err != nil {
		return now, err
	}
	switch {
	case now.State == document.Active:
	case inService:
		var active int64
		if active, err = t.active(); err == nil {
			err = t.activate(own, active)
		}
	default:
		if err = t.exec("UPDATE generations SET state = 'ready', retired = NULL WHERE id = ?", id); err == nil {
			err = t.tell(KindGenerationReady, "model", now.Model, "texts", strconv.FormatInt(now.Texts, 10))
		}
	}
	if err != nil {
		return now, err
	}
	return t.reread(id)
}

func (t *tx) reread(id int64) (document.Generation, error) {
	g, err := scanGeneration(t.QueryRowContext(t.ctx, "SELECT "+generationColumns+" FROM generations g WHERE g.id = ?", id))
	return g.Generation, err
}

// lacks is the condition on documents that a passage of theirs has no vector of
// the generation whose base is its one parameter.
const lacks = `EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = documents.id
	AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = ? + c.text_id))`

// measure sets the state of every document whose text is stored by what it has
// of g, and returns how many became embedding. What failed only because no
// vector could be had is indexed when it has them all.
func (t *tx) measure(g generation) (embedding int64, err error) {
	if g.Missing() > 0 {
		r, err := t.ExecContext(t.ctx, "UPDATE documents SET state = 'embedding', due = ? WHERE state = 'indexed' AND "+lacks, t.now, g.base())
		if err != nil {
			return 0, err
		}
		if embedding, err = r.RowsAffected(); err != nil {
			return 0, err
		}
	}
	return embedding, t.exec(`UPDATE documents SET state = 'indexed', reason = '', detail = '', tries = 0, due = NULL, indexed = ?
		WHERE (state = 'embedding' OR state = 'failed' AND reason IN (?, ?)) AND chunks > 0 AND NOT `+lacks,
		t.now, string(document.ReasonInvalidVector), string(document.ReasonTooLong), g.base())
}

// awaited reports whether a document waits for a vector of the generation at
// base. One that is found again counts while the text of before lacks one.
func (t *tx) awaited(base int64) (yes bool, err error) {
	const of = "EXISTS (SELECT 1 FROM folders f CROSS JOIN documents ON folder_id = f.id WHERE "
	err = t.one("SELECT "+of+"documents.state = 'embedding') OR "+of+"documents.state = 'found' AND chunks > 0 AND "+lacks+")", []any{base}, &yes)
	return yes, err
}
