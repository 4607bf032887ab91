// Command ondol keeps one local llama-server warm for every editor on this machine and its owner's folders searchable.
package main

import "github.com/ondol-app/ondol/app"

func main() { app.Main() }
