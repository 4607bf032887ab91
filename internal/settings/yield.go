package settings

import "time"

// Yield is when indexing pauses so that the machine stays usable.
type Yield struct {
	GPU         int           // percent of the GPU that others use
	GPUResume   int           // percent; below GPU
	After       time.Duration // of that use
	ResumeAfter time.Duration // without any reason
	Battery     bool
	LowPower    bool
}

// yieldKnobs is the part of the table that is about yielding.
func yieldKnobs() []Knob {
	return []Knob{
		{Key: "yield.gpu", Default: 25, Unit: "percent", Min: 1, Max: 100, Meaning: "share of the GPU's time used by other programs above which indexing pauses; 100 means never for that",
			field: func(s *Settings) any { return &s.Yield.GPU }},
		{Key: "yield.gpu_resume", Default: 10, Unit: "percent", Min: 1, Max: 99, Meaning: "share below which it goes on; less than yield.gpu",
			field: func(s *Settings) any { return &s.Yield.GPUResume }},
		{Key: "yield.after", Default: 3 * time.Second, Min: 1, Max: 600, Meaning: "how long other programs must use more than that before indexing pauses",
			field: func(s *Settings) any { return &s.Yield.After }},
		{Key: "yield.resume_after", Default: 15 * time.Second, Min: 1, Max: 3600, Meaning: "how long nothing must be in the way before indexing goes on",
			field: func(s *Settings) any { return &s.Yield.ResumeAfter }},
		{Key: "yield.battery", Default: true, Meaning: "indexing pauses while the machine runs on its battery",
			field: func(s *Settings) any { return &s.Yield.Battery }},
		{Key: "yield.low_power", Default: true, Meaning: "indexing pauses in low power mode",
			field: func(s *Settings) any { return &s.Yield.LowPower }},
	}
}
