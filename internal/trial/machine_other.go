//go:build !darwin

package trial

import "os"

func hardware() (cpu string, memory int64) {
	info, _ := os.ReadFile("/proc/cpuinfo")
	sizes, _ := os.ReadFile("/proc/meminfo")
	return field(string(info), "model name"), kilobytes(field(string(sizes), "MemTotal"))
}
