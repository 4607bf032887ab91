package process

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

func killWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// startOf reads field 22 of /proc/PID/stat (proc(5)): clock ticks since boot. With the boot id it names a process
// for good. ended is true for a zombie.
func startOf(pid int) (start string, ended bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, err
	}
	// Field 2 is the program's name in parentheses and may hold blanks and parentheses itself.
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 20 {
		return "", false, fmt.Errorf("read /proc/%d/stat: unknown form", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false, err
	}
	state := fields[0][0]
	return fmt.Sprintf("%s:%s", bytes.TrimSpace(boot), fields[19]), state == 'Z' || state == 'X', nil
}

func executableOf(pid int) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// self is the path by which this binary can be started again, even after its file was replaced by an update.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "/proc/self/exe", nil
	}
	return path, nil
}
