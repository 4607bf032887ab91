package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models/catalog"
	"github.com/ondol-app/ondol/internal/models/pull"
	"github.com/ondol-app/ondol/internal/search"
)

// ErrNotRunning means that no app listens on the socket.
var ErrNotRunning = errors.New("no Ondol is running here; start one with `ondol serve`")

// Client calls a running app. Errors are ErrNotRunning, an *Error of the API,
// or of the transport. How long a call may take is its context's to say.
type Client struct {
	http *http.Client
	base string
}

// NewClient calls the app whose control socket is at path; it connects on the
// first call. trust is asked before each connection; one that its error
// forbids is not made.
func NewClient(path string, trust ...func() error) *Client {
	dialer := net.Dialer{Timeout: probeTime}
	return &Client{
		http: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				for _, check := range trust {
					if err := check(); err != nil {
						return nil, err
					}
				}
				return dialer.DialContext(ctx, "unix", path)
			},
			MaxIdleConns:    2,
			IdleConnTimeout: 30 * time.Second,
		}},
		base: "http://localhost" + Prefix, // the host is for form: the socket decides
	}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status is the snapshot of everything.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "GET", "status", nil)
}

// History is the figures of the last ten minutes ("10m") or the last day ("24h").
func (c *Client) History(ctx context.Context, span string) (History, error) {
	return call[History](ctx, c, "GET", "history?span="+url.QueryEscape(span), nil)
}

// Folders lists the watched folders with their ledgers.
func (c *Client) Folders(ctx context.Context) ([]document.Folder, error) {
	list, err := call[Folders](ctx, c, "GET", "folders", nil)
	return list.Folders, err
}

// AddFolder watches the folder at an absolute path.
func (c *Client) AddFolder(ctx context.Context, path string) (document.Folder, error) {
	return call[document.Folder](ctx, c, "POST", "folders", AddFolder{Path: path})
}

// RemoveFolder forgets a folder and what was indexed of it; its files stay.
func (c *Client) RemoveFolder(ctx context.Context, id document.FolderID) error {
	_, err := c.do(ctx, "DELETE", "folders/"+decimal(int64(id)), nil)
	return err
}

// RescanFolder asks for a scan; it does not wait for its end.
func (c *Client) RescanFolder(ctx context.Context, id document.FolderID) error {
	_, err := c.do(ctx, "POST", "folders/"+decimal(int64(id))+"/rescan", nil)
	return err
}

// Search answers a query.
func (c *Client) Search(ctx context.Context, req search.Request) (search.Reply, error) {
	return call[search.Reply](ctx, c, "POST", "search", req)
}

// Documents is one page; Documents.Next leads to the following one.
func (c *Client) Documents(ctx context.Context, q DocumentsQuery) (Documents, error) {
	values := url.Values{}
	if q.State != "" {
		values.Set("state", q.State.String())
	}
	if q.Folder != 0 {
		values.Set("folder", decimal(int64(q.Folder)))
	}
	if q.Path != "" {
		values.Set("path", q.Path)
	}
	if q.File != "" {
		values.Set("file", q.File)
	}
	if len(q.Kinds) > 0 {
		kinds := make([]string, len(q.Kinds))
		for i, k := range q.Kinds {
			kinds[i] = string(k)
		}
		values.Set("kinds", strings.Join(kinds, ","))
	}
	if q.Cursor != "" {
		values.Set("cursor", q.Cursor)
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return call[Documents](ctx, c, "GET", "documents?"+values.Encode(), nil)
}

// Document is one document.
func (c *Client) Document(ctx context.Context, id document.ID) (Document, error) {
	return call[Document](ctx, c, "GET", "documents/"+decimal(int64(id)), nil)
}

// Text is one document with a stretch of its text; r.Bytes = 0 means DefaultText.
func (c *Client) Text(ctx context.Context, id document.ID, r document.Range) (Reading, error) {
	values := url.Values{}
	for name, n := range map[string]int{"from": r.Line, "to": r.LastLine, "bytes": r.Bytes} {
		if n != 0 {
			values.Set(name, strconv.Itoa(n))
		}
	}
	if r.Line == 0 {
		values.Set("offset", strconv.Itoa(r.Offset))
	}
	return call[Reading](ctx, c, "GET", "documents/"+decimal(int64(id))+"?"+values.Encode(), nil)
}

// RetryDocument reads and embeds a failed or skipped document again.
func (c *Client) RetryDocument(ctx context.Context, id document.ID) error {
	_, err := c.do(ctx, "POST", "documents/"+decimal(int64(id))+"/retry", nil)
	return err
}

// Engine is where the engine stands.
func (c *Client) Engine(ctx context.Context) (llamaserver.Status, error) {
	return call[llamaserver.Status](ctx, c, "GET", "engine", nil)
}

// StartEngine starts the engine and returns at once.
func (c *Client) StartEngine(ctx context.Context) (llamaserver.Status, error) {
	return call[llamaserver.Status](ctx, c, "POST", "engine/start", nil)
}

// StopEngine returns when the engine has ended.
func (c *Client) StopEngine(ctx context.Context) (llamaserver.Status, error) {
	return call[llamaserver.Status](ctx, c, "POST", "engine/stop", nil)
}

// RestartEngine returns when the old engine has ended.
func (c *Client) RestartEngine(ctx context.Context) (llamaserver.Status, error) {
	return call[llamaserver.Status](ctx, c, "POST", "engine/restart", nil)
}

// EngineLogs is the last lines of the engine's log, oldest first; 0 = as many as is usual.
func (c *Client) EngineLogs(ctx context.Context, n int) ([]string, error) {
	path := "engine/logs"
	if n != 0 {
		path += "?lines=" + strconv.Itoa(n)
	}
	body, err := c.do(ctx, "GET", path, nil)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"), nil
}

// Models lists the models on this machine.
func (c *Client) Models(ctx context.Context) (ModelList, error) {
	return call[ModelList](ctx, c, "GET", "models", nil)
}

// InspectModel reads the header of the model at an absolute path.
func (c *Client) InspectModel(ctx context.Context, path string) (Model, error) {
	return call[Model](ctx, c, "GET", "models/inspect?"+url.Values{"path": {path}}.Encode(), nil)
}

// UseModel has another model embed: once it has passed its trial, or as
// UsedModel.Applies says. It does not wait for that.
func (c *Client) UseModel(ctx context.Context, req UseModel) (UsedModel, error) {
	return call[UsedModel](ctx, c, "POST", "models/use", req)
}

// CheckEngine embeds the canaries now and returns what that found.
func (c *Client) CheckEngine(ctx context.Context) (llamaserver.Status, error) {
	return call[llamaserver.Status](ctx, c, "POST", "engine/check", nil)
}

// EngineReport is all that is known of an engine in trouble.
func (c *Client) EngineReport(ctx context.Context) (Report, error) {
	return call[Report](ctx, c, "GET", "engine/report", nil)
}

// Quarantine lists the texts that the engine is not given.
func (c *Client) Quarantine(ctx context.Context) (Quarantine, error) {
	return call[Quarantine](ctx, c, "GET", "engine/quarantine", nil)
}

// LiftQuarantine lets the text of that SHA-256 be tried again; all when it is empty.
func (c *Client) LiftQuarantine(ctx context.Context, hash string) (Lifted, error) {
	path := "engine/quarantine"
	if hash != "" {
		path += "?sha256=" + url.QueryEscape(hash)
	}
	return call[Lifted](ctx, c, "DELETE", path, nil)
}

// Settings lists the settings.
func (c *Client) Settings(ctx context.Context) (SettingsList, error) {
	return call[SettingsList](ctx, c, "GET", "settings", nil)
}

// ChangeSettings writes settings, all or none; values are as config set takes them.
func (c *Client) ChangeSettings(ctx context.Context, changes map[string]string) (SettingsChanged, error) {
	return call[SettingsChanged](ctx, c, "PATCH", "settings", SettingsChange{Changes: changes})
}

// PreviewSettings is what ChangeSettings would come to.
func (c *Client) PreviewSettings(ctx context.Context, changes map[string]string) (SettingsChanged, error) {
	return call[SettingsChanged](ctx, c, "POST", "settings/preview", SettingsChange{Changes: changes})
}

// Chain is the capacity chain of the settings.
func (c *Client) Chain(ctx context.Context) (Chain, error) {
	return call[Chain](ctx, c, "GET", "settings/chain", nil)
}

// Catalogue lists the models known by name.
func (c *Client) Catalogue(ctx context.Context) ([]catalog.Model, error) {
	list, err := call[Catalogue](ctx, c, "GET", "models/catalog", nil)
	return list.Models, err
}

// Pull queues a model, or resumes the pull of it; it does not wait for the end.
func (c *Client) Pull(ctx context.Context, req pull.Request) (pull.Pull, error) {
	return call[pull.Pull](ctx, c, "POST", "models/pull", req)
}

// Pulls lists the pulls, oldest first.
func (c *Client) Pulls(ctx context.Context) ([]pull.Pull, error) {
	list, err := call[Pulls](ctx, c, "GET", "models/pulls", nil)
	return list.Pulls, err
}

// PausePull stops a pull and keeps what came.
func (c *Client) PausePull(ctx context.Context, id int64) (pull.Pull, error) {
	return call[pull.Pull](ctx, c, "POST", "models/pulls/"+decimal(id)+"/pause", nil)
}

// ResumePull queues a pull again that was paused or failed.
func (c *Client) ResumePull(ctx context.Context, id int64) (pull.Pull, error) {
	return call[pull.Pull](ctx, c, "POST", "models/pulls/"+decimal(id)+"/resume", nil)
}

// RemovePull takes a pull off the list, and what is there of an unfinished file.
func (c *Client) RemovePull(ctx context.Context, id int64) error {
	_, err := c.do(ctx, "DELETE", "models/pulls/"+decimal(id), nil)
	return err
}

func decimal(id int64) string { return strconv.FormatInt(id, 10) }

// call does a request and reads its JSON reply.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var v T
	raw, err := c.do(ctx, method, path, body)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("read reply of %s: %w", path, err)
	}
	return v, nil
}

// do sends body as JSON, when there is one, and returns the reply's body.
func (c *Client) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read reply of %s: %w", path, err)
	}
	return reply, nil
}

// send is do for a reply that is read as it comes; the caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var send io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write request of %s: %w", path, err)
		}
		send = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, send)
	if err != nil {
		return nil, fmt.Errorf("make request of %s: %w", path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.open(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read reply of %s: %w", path, err)
	}
	return nil, readError(resp.StatusCode, reply)
}

// open does a request; the reply's body is the caller's to read and close.
func (c *Client) open(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("call the running app: %w", err)
	}
	return resp, nil
}

// readError turns an error reply into an *Error, also one that no app of ours wrote.
func readError(status int, reply []byte) error {
	var body errorBody
	if json.Unmarshal(reply, &body) != nil || body.Error == nil || body.Error.Code == "" {
		return &Error{Status: status, Code: CodeInternal, Message: "the app answered with status " + strconv.Itoa(status),
			Remedy: "its version may differ from this command's: end it and start it again"}
	}
	body.Error.Status = status
	return body.Error
}
