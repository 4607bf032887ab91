// An NVML of its own, for the test: two GPUs whose processes and figures the
// test sets.
#include <stdint.h>

typedef struct { unsigned pid; unsigned long long timestamp; unsigned sm, memory, encoder, decoder; } process;
typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } utilization;

static int started, refuses;
static unsigned gpus = 2, share[4];
static unsigned long long clock_us = 1000;

int nvmlInit_v2(void) { started = 1; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = gpus; return started ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **to) { *to = (void *)(uintptr_t)(i + 1); return 0; }
int nvmlDeviceGetUtilizationRates(void *d, utilization *to) { to->gpu = (uintptr_t)d == 1 ? 40 : 75; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, memory_info *to) { to->total = 1000; to->used = 300 * (uintptr_t)d; to->free = 0; return 0; }
int nvmlDeviceGetProcessUtilization(void *d, process *to, unsigned *n, unsigned long long since) {
  if (refuses) return 3; // not supported
  if ((uintptr_t)d != 1 || since >= clock_us) return 6;
  unsigned found = 0;
  for (unsigned i = 0; i < 4 && found < *n; i++)
    if (share[i]) to[found++] = (process){100 + i, clock_us, share[i], 1, 2, 3};
  *n = found;
  return found ? 0 : 6;
}
void FakeShare(unsigned at, unsigned percent) { share[at] = percent; }
void FakeAdvance(unsigned long long us) { clock_us += us; }
void FakeRefuse(int yes) { refuses = yes; }
void FakeGPUs(unsigned n) { gpus = n; }
