package app

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/ondol-app/ondol/internal/llamaserver"
	"github.com/ondol-app/ondol/internal/models"
	"github.com/ondol-app/ondol/internal/settings"
)

// memoryChecker is llamaserver.Config.CheckMemory.
type memoryChecker = func(model string, flags []string, version string) (llamaserver.Memory, *llamaserver.Problem)

// memoryCheck is what is asked before an engine starts; nil when the machine
// is not known. others are the profiles that may be offered instead, largest
// first. Where the owner has switched refusing off, the figures are told all
// the same.
func (p *parts) memoryCheck(s *settings.Loaded, others []models.Profile) memoryChecker {
	if p.machine.Total == 0 {
		return nil
	}
	return memoryCheck(p.machine, s.Engine.MemoryCheck, others)
}

func memoryCheck(machine models.Machine, refuse bool, others []models.Profile) memoryChecker {
	return func(path string, flags []string, version string) (llamaserver.Memory, *llamaserver.Problem) {
		model, err := models.Inspect(path)
		if err != nil {
			return llamaserver.Memory{}, &llamaserver.Problem{Code: llamaserver.CodeModelInvalid, Remedy: llamaserver.RemedyModel,
				Message: fmt.Sprintf("the model %s cannot be read: %v; download it again or choose another", path, err)}
		}
		v := model.Weigh(machine, models.Profile{Flags: flags}, others, buildNumber(version))
		memory := llamaserver.Memory{Need: v.Need.Total, GPU: v.Need.GPU, Budget: v.Budget, WorkingSet: v.WorkingSet}
		if v.Fits || !refuse {
			return memory, nil
		}
		return memory, memoryProblem(v)
	}
}

// twoFit is llamaserver.Config.ReferenceFits: two engines of one model at a time.
func (p *parts) twoFit(path string, live, second []string, version string) bool {
	model, err := models.Inspect(path)
	if err != nil {
		return false
	}
	n := buildNumber(version)
	return model.Estimate(live, n).Total+model.Estimate(second, n).Total <= p.machine.Budget()
}

// memoryProblem refuses a start, names the figures and what fits.
func memoryProblem(v models.Verdict) *llamaserver.Problem {
	remedy, helps := llamaserver.RemedySmaller, "choose a smaller model"
	if v.Smaller != "" {
		remedy, helps = llamaserver.RemedyProfile, "set engine.profile to "+v.Smaller
	}
	const otherwise = "or set engine.memory_check to false"
	if v.Need.Total > v.Budget {
		need, budget := gib(v.Need.Total), gib(v.Budget)
		return &llamaserver.Problem{Code: llamaserver.CodeMemory, Remedy: remedy, Args: map[string]string{"need": need, "budget": budget, "smaller": v.Smaller},
			Message: fmt.Sprintf("the engine needs about %s of memory, but %s may be used here; %s, %s", need, budget, helps, otherwise)}
	}
	need, budget := gib(v.Need.GPU), gib(v.WorkingSet)
	return &llamaserver.Problem{Code: llamaserver.CodeGPUMemory, Remedy: remedy, Args: map[string]string{"gpu": need, "working_set": budget, "smaller": v.Smaller},
		Message: fmt.Sprintf("the engine needs about %s of memory on the GPU, which reaches %s; %s, %s", need, budget, helps, otherwise)}
}

// gib is a size as people say it.
func gib(bytes int64) string { return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) + " GiB" }

// build finds llama.cpp's build number in what llama-server says of itself.
var build = regexp.MustCompile(`\bbuild (\d{1,9})\b`)

// buildNumber is 0 where a version names no build.
func buildNumber(version string) int {
	if m := build.FindStringSubmatch(version); m != nil {
		n, _ := strconv.Atoi(m[1]) // nine digits fit
		return n
	}
	return 0
}

// smallerProfiles are the profiles that may take a large one's place, with
// the owner's flags after theirs.
func smallerProfiles(engine settings.Engine) []models.Profile {
	var list []models.Profile
	for _, p := range llamaserver.Profiles() {
		if p.Name != starterProfile {
			list = append(list, models.Profile{Name: p.Name, Flags: append(p.Flags, engine.Flags...)})
		}
	}
	return list
}
