package host

import (
	"runtime"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
	"golang.org/x/sys/unix"

	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/gpu/iokit"
)

// frameworks are where macOS keeps them; the files live in dyld's cache.
const frameworks = "/System/Library/Frameworks/"

// Open finds what this Mac tells.
func Open() gpu.Source {
	source := gpu.Source{Missing: gpu.ReasonUnreadable}
	registry, err := iokit.Open(frameworks+"CoreFoundation.framework/CoreFoundation", frameworks+"IOKit.framework/IOKit")
	if err != nil {
		source.Err = err
	} else {
		source.Reader = &metal{Registry: registry, workingSet: workingSet()}
	}
	process := processInfo()
	source.Conditions = func() gpu.Conditions { return conditions(process) }
	return source
}

// metal is the registry, and what Metal alone knows.
type metal struct {
	*iokit.Registry
	workingSet *int64
}

func (m *metal) Read() (gpu.Reading, error) {
	reading, err := m.Registry.Read()
	reading.WorkingSet = m.workingSet
	return reading, err
}

// workingSet is recommendedMaxWorkingSetSize of the default device; it changes
// with the owner's iogpu.wired_limit_mb, at the next start. nil without Metal.
func workingSet() *int64 {
	library, err := purego.Dlopen(frameworks+"Metal.framework/Metal", purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	if err != nil {
		return nil
	}
	symbol, err := purego.Dlsym(library, "MTLCreateSystemDefaultDevice")
	if err != nil {
		return nil
	}
	var create func() objc.ID
	purego.RegisterFunc(&create, symbol)
	var size int64
	pooled(func() {
		device := create() // ours to release
		if device == 0 {
			return
		}
		size = int64(objc.Send[uint64](device, objc.RegisterName("recommendedMaxWorkingSetSize")))
		device.Send(objc.RegisterName("release"))
	})
	if size <= 0 {
		return nil
	}
	return &size
}

// pooled runs f with an autorelease pool on one thread.
func pooled(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := objc.ID(objc.GetClass("NSAutoreleasePool")).Send(objc.RegisterName("new"))
	defer pool.Send(objc.RegisterName("drain"))
	f()
}

// processInfo is the process's own object, 0 without Foundation.
func processInfo() objc.ID {
	if _, err := purego.Dlopen(frameworks+"Foundation.framework/Foundation", purego.RTLD_LAZY|purego.RTLD_GLOBAL); err != nil {
		return 0
	}
	var info objc.ID
	pooled(func() { info = objc.ID(objc.GetClass("NSProcessInfo")).Send(objc.RegisterName("processInfo")) })
	return info
}

// thermalStates are NSProcessInfoThermalState.
var thermalStates = []gpu.Thermal{gpu.ThermalNominal, gpu.ThermalFair, gpu.ThermalSerious, gpu.ThermalCritical}

// pressureLevels are those of kern.memorystatus_vm_pressure_level.
var pressureLevels = map[uint32]gpu.Pressure{1: gpu.PressureNormal, 2: gpu.PressureWarning, 4: gpu.PressureCritical}

func conditions(process objc.ID) gpu.Conditions {
	var c gpu.Conditions
	if level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level"); err == nil {
		c.MemoryPressure = pressureLevels[level]
	}
	if process != 0 {
		pooled(func() {
			if state := objc.Send[int](process, objc.RegisterName("thermalState")); state >= 0 && state < len(thermalStates) {
				c.Thermal = thermalStates[state]
			}
			low := objc.Send[bool](process, objc.RegisterName("isLowPowerModeEnabled"))
			c.LowPower = &low
		})
	}
	return c
}
