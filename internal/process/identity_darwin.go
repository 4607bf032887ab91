package process

import (
	"bytes"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// killWithParent does nothing: macOS has no parent-death signal. When the guard is killed, the app sees it and ends
// the child by its identity (Process.watch); when both are killed, the next start's Sweep does.
func killWithParent(*syscall.SysProcAttr) {}

// zombie is SZOMB of sys/proc.h.
const zombie = 5

// startOf reads kinfo_proc's p_starttime (microseconds, wall clock at fork). ended is true for a zombie.
func startOf(pid int) (start string, ended bool, err error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", false, err
	}
	if int(info.Proc.P_pid) != pid { // no such process: the sysctl answers with an empty record
		return "", false, syscall.ESRCH
	}
	began := info.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", began.Sec, began.Usec), info.Proc.P_stat == zombie, nil
}

// executableOf reads KERN_PROCARGS2 (sysctl(3)): an int32 count of arguments, then the path that was executed.
func executableOf(pid int) string {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(raw) < 5 {
		return ""
	}
	path, _, found := bytes.Cut(raw[4:], []byte{0})
	if !found {
		return ""
	}
	return string(path)
}

// self is the path by which this binary can be started again.
func self() (string, error) { return os.Executable() }
