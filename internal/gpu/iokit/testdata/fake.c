// A CoreFoundation and IOKit of its own, for the test: objects count their
// references, and whatever would crash or leak on macOS ends the process or is
// counted. Released objects are kept as shells, so that a use after release is
// seen. Time is what FakeAdvance says.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRING = 7, DICT = 18, ARRAY = 19, NUMBER = 22 };

typedef struct cf {
  int type, refs, count;
  char *text;
  int64_t number;
  struct cf **keys, **values;
} cf;

static long live_cf, live_io;

static void die(const char *why) { fprintf(stderr, "fake: %s\n", why); abort(); }
static cf *alive(cf *c) {
  if (!c) die("a null object was used");
  if (c->refs <= 0) die("an object was used after its release");
  return c;
}
static cf *make(int type) { cf *c = calloc(1, sizeof *c); c->type = type; c->refs = 1; live_cf++; return c; }
static cf *text(const char *s) { cf *c = make(STRING); c->text = strdup(s); return c; }
static cf *number(int64_t n) { cf *c = make(NUMBER); c->number = n; return c; }
static void push(cf *to, cf *key, cf *value) {
  to->keys = realloc(to->keys, sizeof(cf *) * (to->count + 1));
  to->values = realloc(to->values, sizeof(cf *) * (to->count + 1));
  to->keys[to->count] = key;
  to->values[to->count++] = value;
}
static void put(cf *dict, const char *key, cf *value) { push(dict, text(key), value); }

unsigned long CFStringGetTypeID(void) { return STRING; }
unsigned long CFDictionaryGetTypeID(void) { return DICT; }
unsigned long CFArrayGetTypeID(void) { return ARRAY; }
unsigned long CFNumberGetTypeID(void) { return NUMBER; }
unsigned long CFGetTypeID(cf *c) { return alive(c)->type; }
cf *CFStringCreateWithCString(void *allocator, const char *s, uint32_t encoding) {
  if (allocator || encoding != 0x08000100) die("string of an unknown encoding");
  return text(s);
}
bool CFStringGetCString(cf *c, char *to, long size, uint32_t encoding) {
  if (alive(c)->type != STRING || encoding != 0x08000100) die("not a string");
  if ((long)strlen(c->text) + 1 > size) return false;
  strcpy(to, c->text);
  return true;
}
bool CFNumberGetValue(cf *c, long kind, int64_t *to) {
  if (alive(c)->type != NUMBER) die("not a number");
  if (kind != 4) return false;
  *to = c->number;
  return true;
}
long CFArrayGetCount(cf *c) { if (alive(c)->type != ARRAY) die("not an array"); return c->count; }
cf *CFArrayGetValueAtIndex(cf *c, long i) {
  if (alive(c)->type != ARRAY || i < 0 || i >= c->count) die("beyond an array");
  return c->values[i];
}
cf *CFDictionaryGetValue(cf *c, cf *key) {
  if (alive(c)->type != DICT) die("not a dictionary");
  for (int i = 0; i < c->count; i++)
    if (!strcmp(c->keys[i]->text, alive(key)->text)) return c->values[i];
  return NULL;
}
void CFRelease(cf *c) {
  if (--alive(c)->refs > 0) return;
  for (int i = 0; i < c->count; i++) {
    if (c->keys[i]) CFRelease(c->keys[i]);
    CFRelease(c->values[i]);
  }
  free(c->text);
  c->text = NULL;
  live_cf--;
}

// The registry. Iterators are numbered from 1000, so that one used after its
// release is seen.
enum { MAX = 64 };
struct client { int pid; bool there, told; uint64_t id, ns, perMille; const char *odd; };
static struct client clients[MAX];
static int64_t utilization = 0, memory = 0;
static int accelerators = 1;
static uint64_t next_id = 0x100000000;
struct iterator { bool open, children; int at; };
static struct iterator iterators[4096];
static int next_iterator;

static uint32_t iterate(bool children) {
  int i = next_iterator++ % 4096;
  if (iterators[i].open) die("too many iterators at once");
  iterators[i] = (struct iterator){true, children, 0};
  live_io++;
  return 1000 + i;
}
static struct iterator *iterator(uint32_t o) {
  if (o < 1000 || !iterators[o - 1000].open) die("no such iterator");
  return &iterators[o - 1000];
}
cf *IOServiceMatching(const char *name) { cf *d = make(DICT); put(d, "IOProviderClass", text(name)); return d; }
int IOServiceGetMatchingServices(uint32_t port, cf *match, uint32_t *to) {
  bool known = !strcmp(CFDictionaryGetValue(match, match->keys[0])->text, "IOAccelerator");
  CFRelease(match); // as the real one
  *to = known && accelerators ? iterate(false) : 0;
  return port ? 0xe00002c2 : 0;
}
uint32_t IOIteratorNext(uint32_t o) {
  struct iterator *it = iterator(o);
  if (!it->children) {
    if (it->at++) return 0;
    live_io++;
    return 1;
  }
  while (it->at < MAX && !clients[it->at].there) it->at++;
  if (it->at == MAX) return 0;
  live_io++;
  return 100 + it->at++;
}
int IOObjectRelease(uint32_t o) {
  if (!o) die("no object was released");
  if (o >= 1000) iterator(o)->open = false;
  live_io--;
  return 0;
}
int IORegistryEntryGetChildIterator(uint32_t o, const char *plane, uint32_t *to) {
  if (o != 1 || strcmp(plane, "IOService")) return 0xe00002c2;
  *to = iterate(true);
  return 0;
}
int IORegistryEntryGetRegistryEntryID(uint32_t o, uint64_t *to) { *to = clients[o - 100].id; return 0; }

static cf *usage(struct client *c) {
  if (c->odd) return text(c->odd); // not the type it should be
  cf *list = make(ARRAY), *metal = make(DICT), *gl = make(DICT);
  put(metal, "API", text("Metal"));
  put(metal, "lastSubmittedTime", number(123));
  put(metal, "accumulatedGPUTime", number((int64_t)(c->ns - c->ns / 3)));
  put(gl, "API", text("GL"));
  put(gl, "accumulatedGPUTime", number((int64_t)(c->ns / 3)));
  push(list, NULL, metal);
  push(list, NULL, gl);
  push(list, NULL, text("neither"));
  return list;
}
cf *IORegistryEntryCreateCFProperty(uint32_t o, cf *key, void *allocator, uint32_t options) {
  const char *name = alive(key)->text;
  if (allocator || options) die("unknown options");
  if (o == 1 && !strcmp(name, "PerformanceStatistics")) {
    cf *d = make(DICT);
    put(d, "Device Utilization %", number(utilization));
    put(d, "Renderer Utilization %", number(utilization));
    put(d, "In use system memory", number(memory));
    put(d, "recoveryCount", number(0));
    return d;
  }
  if (o < 100 || o >= 100 + MAX) return NULL;
  struct client *c = &clients[o - 100];
  if (!strcmp(name, "IOUserClientCreator")) {
    char creator[64];
    snprintf(creator, sizeof creator, c->pid ? "pid %d, com.apple.WebKi" : "kernel", c->pid);
    return text(creator);
  }
  return !strcmp(name, "AppUsage") && c->told ? usage(c) : NULL;
}

// What a test scripts. A client that is set again at its place begins anew.
void FakeClient(int at, int pid, uint64_t ns) {
  clients[at] = (struct client){pid, true, true, ++next_id, ns, 0, NULL};
}
void FakeSilent(int at, int pid) { clients[at] = (struct client){pid, true, false, ++next_id, 0, 0, NULL}; }
void FakeOdd(int at, int pid) { clients[at] = (struct client){pid, true, true, ++next_id, 0, 0, "odd"}; }
void FakeGone(int at) { clients[at].there = false; }
void FakeShare(int at, uint64_t perMille) { clients[at].perMille = perMille; }
void FakeDevice(int64_t percent, int64_t bytes) { utilization = percent; memory = bytes; }
void FakeAccelerators(int n) { accelerators = n; }
void FakeAdvance(uint64_t ns) {
  for (int i = 0; i < MAX; i++)
    if (clients[i].there) clients[i].ns += ns / 1000 * clients[i].perMille;
}
int64_t FakeObjects(void) { return live_cf; }
int64_t FakeEntries(void) { return live_io; }
