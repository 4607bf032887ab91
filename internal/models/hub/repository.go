package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// repository is the part of api/models/REPO that is needed.
type repository struct {
	SHA  string   `json:"sha"`
	Tags []string `json:"tags"`
	Card struct {
		License     json.RawMessage `json:"license"` // a text, or a list of them
		LicenseName string          `json:"license_name"`
		LicenseLink string          `json:"license_link"`
	} `json:"cardData"`
}

var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

func (h *Hub) repository(ctx context.Context, repo string) (repository, error) {
	var r repository
	if err := h.json(ctx, repo, h.base.String()+"/api/models/"+repo, &r); err != nil {
		return r, err
	}
	if !commit.MatchString(r.SHA) {
		return r, &UnreachableError{Host: h.base.Host, Err: errors.New("it tells no revision; is it a hub?")}
	}
	return r, nil
}

// licence is what the repository says it is under, and where that is written.
func (r repository) licence(page string) (name, address string) {
	var text string
	if json.Unmarshal(r.Card.License, &text) == nil {
		name = text
	}
	for _, tag := range r.Tags {
		if rest, ok := strings.CutPrefix(tag, "license:"); ok && name == "" {
			name = rest
		}
	}
	if r.Card.LicenseName != "" && (name == "" || name == "other") {
		name = r.Card.LicenseName
	}
	if name == "" {
		return LicenceUnknown, page
	}
	link, err := url.Parse(r.Card.LicenseLink)
	switch {
	case err != nil || r.Card.LicenseLink == "":
		return name, page
	case link.Scheme == "https" || link.Scheme == "http":
		return name, link.String()
	case link.Scheme == "" && link.Host == "" && !strings.Contains(link.Path, ".."):
		return name, page + "/blob/main/" + escape(strings.TrimPrefix(link.Path, "/"))
	}
	return name, page
}
