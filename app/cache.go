package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ondol-app/ondol/internal/locations"
	"github.com/ondol-app/ondol/internal/settings"
	"github.com/ondol-app/ondol/internal/sqlite"
	"github.com/ondol-app/ondol/internal/vectorcache"
)

// newCache builds the cache of vectors. A file that cannot be opened costs the
// cache its disk, never the app its start.
func newCache(ctx context.Context, s settings.Cache, paths locations.Paths, logger *slog.Logger) (*vectorcache.Cache, error) {
	config := vectorcache.Config{Memory: int64(s.Memory) << 20, Logger: logger}
	if s.Disk > 0 {
		store, err := sqlite.OpenVectorCache(ctx, sqlite.VectorCacheConfig{Path: paths.VectorCache(), MaxBytes: int64(s.Disk) << 20})
		if err != nil {
			logger.Warn("The vector cache works in memory only", slog.Any("error", err))
		} else {
			config.Store = store
		}
	}
	cache, err := vectorcache.New(config)
	if err != nil {
		return nil, fmt.Errorf("build the vector cache: %w", err)
	}
	return cache, nil
}
