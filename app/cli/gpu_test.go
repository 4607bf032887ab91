package cli

import (
	"testing"
	"time"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/gpu"
	"github.com/ondol-app/ondol/internal/yielding"
)

func TestGPULine(t *testing.T) {
	yes, no := true, false
	busy, ours, others, used, size := 0.866, 0.7, 0.154, int64(5_300_000_000), int64(22_900_000_000)
	for _, test := range []struct {
		now    gpu.Status
		en, ko string
	}{
		{gpu.Status{Reason: gpu.ReasonNoGPU}, "no figures: this machine has none", "수치 없음: 이 컴퓨터에는 GPU가 없음"},
		{gpu.Status{Reason: gpu.ReasonNoGPU, Conditions: gpu.Conditions{OnBattery: &yes}}, "no figures: this machine has none · on battery", "수치 없음: 이 컴퓨터에는 GPU가 없음 · 배터리로 작동 중"},
		{gpu.Status{Available: true, Utilization: &busy, Conditions: gpu.Conditions{Thermal: gpu.ThermalNominal, MemoryPressure: gpu.PressureNormal, OnBattery: &no, LowPower: &no}},
			"87 % busy", "87% 사용 중"},
		{gpu.Status{Available: true, Utilization: &busy, Ours: &ours, Others: &others, MemoryInUse: &used, WorkingSet: &size},
			"87 % busy · Ondol 70 % · others 15 % · 5.3 GB of 23 GB in use", "87% 사용 중 · 온돌 70% · 다른 프로그램 15% · 23 GB 중 5.3 GB 사용"},
		{gpu.Status{Available: true, MemoryInUse: &used, Conditions: gpu.Conditions{Thermal: gpu.ThermalSerious, MemoryPressure: gpu.PressureWarning, LowPower: &yes}},
			"5.3 GB in use · hot · short of memory · low power mode is on", "5.3 GB 사용 · 뜨거움 · 메모리 부족 · 저전력 모드가 켜져 있음"},
	} {
		for language, want := range map[assets.Language]string{"en": test.en, "ko": test.ko} {
			words, err := assets.Speak(language)
			if err != nil {
				t.Fatal(err)
			}
			if got := gpuLine(words.Say, test.now); got != want {
				t.Errorf("%s: %q, want %q", language, got, want)
			}
		}
	}
}

func TestYieldLine(t *testing.T) {
	words, err := assets.Speak("en")
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 4, 10, 9, 30, 0, 0, time.Local)
	got := yieldLine(words.Say, yielding.State{Since: since, Reasons: []yielding.Reason{yielding.Memory, yielding.Battery}})
	if want := "waits since 2026-04-10 09:30:00: memory is short, on battery"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
