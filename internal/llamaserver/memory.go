package llamaserver

// checkMemory asks whether there is memory enough for a start.
func (e *engine) checkMemory(version string) *Problem {
	if e.config.CheckMemory == nil {
		return nil
	}
	memory, p := e.config.CheckMemory(e.config.Model, e.config.Profile.Flags, version)
	e.emit(update{kind: eventNone, learn: func(f *facts) { f.memory = &memory }})
	return p
}
