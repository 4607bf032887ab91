package download

import "golang.org/x/sys/unix"

// FillDisk makes writes fail with ENOSPC once the partial file has limit bytes,
// as a full disk does.
func (d *Downloader) FillDisk(limit int64) {
	d.open = func(name string) (file, error) {
		f, err := openFile(name)
		return &fullFile{file: f, limit: limit}, err
	}
}

type fullFile struct {
	file
	limit int64
}

func (f *fullFile) WriteAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) <= f.limit {
		return f.file.WriteAt(b, at)
	}
	n, err := f.file.WriteAt(b[:max(f.limit-at, 0)], at)
	if err == nil {
		err = unix.ENOSPC
	}
	return n, err
}
