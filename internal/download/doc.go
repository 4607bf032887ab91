// Package download fetches one file over HTTP into one place on the disk, by
// ranges, so that a download that was cut off goes on at the byte.
//
// Any package of a higher layer may import it. It knows nothing of models.
//
// Guarantees, whatever a server does and whenever the process dies:
//
//   - The target is absent, or it is the whole file with the SHA-256 that was
//     asked for. It appears by a rename, after the whole file was read back
//     from the disk and hashed, and after fsync.
//   - What is not complete lies beside the target as NAME.partial, with
//     NAME.partial.json saying what it is a part of. Bytes are only appended
//     under the same validators (If-Range, Content-Range, total size); a server
//     that lies about ranges makes the download start anew.
//   - One download of a target at a time, over all processes: the partial file
//     is locked (flock) while Fetch runs.
//   - Credentials go to the host of the first URL only; https never leads to http.
//
// Cancelling the context is a pause: the partial file stays. Fetch starts no
// goroutine that outlives it.
package download
