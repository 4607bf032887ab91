package indexer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/ondol-app/ondol/internal/document"
)

// fileOf is what a scan records of a file: rel is its path below the root.
func fileOf(rel string, info fs.FileInfo) document.File {
	return document.File{Path: rel, FileID: fileID(info), Size: info.Size(), Modified: info.ModTime().UTC()}
}

// fileID is "device:inode" in hex; empty where the system has no such thing.
func fileID(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return devicePrefix(uint64(st.Dev)) + strconv.FormatUint(st.Ino, 16)
}

// devicePrefix is how the id of every file on a device begins.
func devicePrefix(device uint64) string { return strconv.FormatUint(device, 16) + ":" }

// deviceOf is the number of the file system that info lies on.
func deviceOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

// statFile looks at the file rel below root without following a link.
func statFile(root, rel string) (document.File, fs.FileInfo, error) {
	info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		return document.File{}, nil, err
	}
	return fileOf(rel, info), info, nil
}
