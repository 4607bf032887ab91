package llamaserver_test

import (
	"os"
	"testing"

	"github.com/ondol-app/ondol/internal/llamaserver/fakellama"
	"github.com/ondol-app/ondol/internal/process"
)

func TestMain(m *testing.M) {
	process.GuardMain()
	fakellama.Main()
	if os.Getenv(appVariable) != "" {
		playApp()
	}
	os.Exit(m.Run())
}
