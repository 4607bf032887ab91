package app

import "github.com/ondol-app/ondol/internal/gpu"

// MainOn is Main on a machine with other GPUs.
func MainOn(gpus func() gpu.Source) { run(program{gpu: gpus}) }
