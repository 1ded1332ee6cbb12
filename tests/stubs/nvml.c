/* A libnvidia-ml.so.1 that plays GPUs as the text file named by NVML_STUB_CONTROL says, read anew at each call.
 *
 * Each line is key=value; a key with ".N" is about GPU N and goes before the one without:
 *   gpus=8                 how many GPUs
 *   init=18                what nvmlInit answers (an NVML error number)
 *   all=9                  what every call answers
 *   fail.NAME=999          what the function NAME answers; NAME.N for one GPU
 *   unsupported=all        every query of a GPU but its handle and UUID is unsupported
 *   lost=3,5               these GPUs are lost, vanished=3 is not even listed
 *   hang.NAME=30           the function NAME sleeps so many seconds
 *   log=PATH               each call's name is appended to PATH
 *   name=TEXT              what a GPU calls itself, as bytes up to the end of the line
 *   mig=1                  it is divided, and does not tell how busy it is
 *   still=1                the file is read at nvmlInit only, so that a call costs next to nothing
 *   utilization, memory_utilization, memory_used (bytes), power_mw, temperature, sm_clock, memory_clock,
 *   reasons (mask), perf_state, memory_temperature, no_memory_temperature, ecc_corrected, ecc_uncorrected,
 *   remapped_corrected, remapped_uncorrected, remap_pending, remap_failed, pcie_replays, energy_mj,
 *   pcie_generation, pcie_width, processes (pid:bytes,pid:bytes), graphics (the same),
 *   p2p (nvmlGpuP2PStatus_t towards that GPU),
 *   nvlinks (far ends: GPU numbers, s for a switch, h for one that is hidden, as in a virtual machine: 1,1,s),
 *   paths (nvmlGpuTopologyLevel_t towards each GPU: 0,10,40,50)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MIB 1048576ULL
#define MAX_GPUS 64
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, SIZE = 7, LOST = 15 };

typedef struct { int index; } gpu_t;
typedef unsigned long long u64;
static gpu_t gpus[MAX_GPUS];
static int opened;
static int still;
static __thread char text[1 << 16];
static const char *find(const char *key);

static void load(int anew) {
  if (!anew && still) return;
  const char *path = getenv("NVML_STUB_CONTROL");
  FILE *file = path ? fopen(path, "r") : NULL;
  size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  text[n] = 0;
  if (file) fclose(file);
  still = find("still") != NULL;
}

static const char *find(const char *key) {
  size_t n = strlen(key);
  for (const char *line = text; line && *line;) {
    if (!strncmp(line, key, n) && line[n] == '=') return line + n + 1;
    line = strchr(line, '\n');
    if (line) line++;
  }
  return NULL;
}

static const char *of(const char *key, int gpu) {
  char exact[128];
  snprintf(exact, sizeof exact, "%s.%d", key, gpu);
  const char *value = gpu >= 0 ? find(exact) : NULL;
  return value ? value : find(key);
}

static u64 number(const char *key, int gpu, u64 otherwise) {
  const char *value = of(key, gpu);
  return value ? strtoull(value, NULL, 0) : otherwise;
}

static int listed(const char *key, int gpu) {
  for (const char *p = find(key); p && *p && *p != '\n';) {
    char *end;
    if (strtol(p, &end, 10) == gpu && end != p) return 1;
    p = *end == ',' ? end + 1 : NULL;
  }
  return 0;
}

static void note(const char *name) {
  const char *value = find("log");
  if (!value) return;
  char path[512];
  snprintf(path, sizeof path, "%.*s", (int)strcspn(value, "\n"), value);
  FILE *file = fopen(path, "a");
  if (file) fprintf(file, "%s\n", name), fclose(file);
}

static int total(void) { u64 n = number("gpus", -1, 8); return n > MAX_GPUS ? MAX_GPUS : (int)n; }

/* What a call answers before it does anything; gpu is -1 for a call that is about none. */
static int enter(const char *name, int gpu) {
  char key[128];
  load(0);
  note(name);
  snprintf(key, sizeof key, "hang.%s", name);
  unsigned seconds = (unsigned)number(key, gpu, 0);
  if (seconds) sleep(seconds);
  if (!opened) return UNINITIALIZED;
  int all = (int)number("all", -1, 0);
  if (all) return all;
  if (gpu >= 0 && (listed("lost", gpu) || listed("vanished", gpu))) return LOST;
  snprintf(key, sizeof key, "fail.%s", name);
  int fail = (int)number(key, gpu, 0);
  if (fail) return fail;
  const char *unsupported = find("unsupported");
  if (gpu >= 0 && unsupported && !strncmp(unsupported, "all", 3) && strcmp(name, "nvmlDeviceGetUUID")) return UNSUPPORTED;
  return OK;
}

#define ENTER(gpu) do { int code = enter(__func__, gpu); if (code) return code; } while (0)
#define QUERY(type, name, expression) \
  API int name(gpu_t *gpu, type *out) { ENTER(gpu->index); *out = (type)(expression); return OK; }

API int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  load(1);
  note(__func__);
  unsigned seconds = (unsigned)number("hang.nvmlInit", -1, 0);
  if (seconds) sleep(seconds);
  int code = (int)number("init", -1, 0);
  if (!code) opened++;
  return code;
}
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) { ENTER(-1); opened--; return OK; }
API const char *nvmlErrorString(int code) { (void)code; return "an error of the stub"; }

static int put(char *out, unsigned size, const char *value) {
  if (strlen(value) >= size) return SIZE;
  strcpy(out, value);
  return OK;
}
API int nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER(-1); return put(out, size, "580.95.05"); }
API int nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(-1); *out = 13000; return OK; }

/* Vanished GPUs close the ranks, as they do in the driver: the handle's place is not the GPU's number. */
API int nvmlDeviceGetCount_v2(unsigned *out) {
  ENTER(-1);
  *out = 0;
  for (int gpu = 0; gpu < total(); gpu++) *out += !listed("vanished", gpu);
  return OK;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **out) {
  ENTER(-1);
  for (int gpu = 0; gpu < total(); gpu++) {
    if (listed("vanished", gpu) || index--) continue;
    gpus[gpu].index = gpu;
    *out = &gpus[gpu];
    return listed("lost", gpu) ? LOST : OK;
  }
  return INVALID;
}
API int nvmlDeviceGetUUID(gpu_t *gpu, char *out, unsigned size) {
  char uuid[64];
  ENTER(gpu->index);
  snprintf(uuid, sizeof uuid, "GPU-5e0f1a2b-3c4d-4e5f-8a9b-0000000000%02x", gpu->index);
  return put(out, size, uuid);
}
API int nvmlDeviceGetName(gpu_t *gpu, char *out, unsigned size) {
  ENTER(gpu->index);
  const char *name = of("name", gpu->index);
  if (!name) return put(out, size, "NVIDIA RTX PRO 6000 Blackwell Server Edition");
  snprintf(out, size, "%.*s", (int)strcspn(name, "\n"), name);
  return OK;
}
API int nvmlDeviceGetVbiosVersion(gpu_t *gpu, char *out, unsigned size) {
  ENTER(gpu->index);
  return put(out, size, "98.02.6A.00.03");
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
static void pci_of(int gpu, pci_t *out) {
  memset(out, 0, sizeof *out);
  out->bus = 0x01 + 0x20 * (unsigned)gpu;
  out->id = 0x2bb510de;
  snprintf(out->bus_id, sizeof out->bus_id, "%08x:%02x:%02x.0", 0, out->bus, 0);
  snprintf(out->legacy, sizeof out->legacy, "%04x:%02x:%02x.0", 0, out->bus, 0);
}
API int nvmlDeviceGetPciInfo_v3(gpu_t *gpu, pci_t *out) { ENTER(gpu->index); pci_of(gpu->index, out); return OK; }

QUERY(unsigned, nvmlDeviceGetArchitecture, 10)
QUERY(unsigned, nvmlDeviceGetPowerUsage, number("power_mw", gpu->index, 82000))
QUERY(unsigned, nvmlDeviceGetEnforcedPowerLimit, 600000)
QUERY(unsigned, nvmlDeviceGetPowerManagementDefaultLimit, 600000)
QUERY(unsigned, nvmlDeviceGetMaxPcieLinkGeneration, 5)
QUERY(unsigned, nvmlDeviceGetMaxPcieLinkWidth, 16)
QUERY(unsigned, nvmlDeviceGetCurrPcieLinkGeneration, number("pcie_generation", gpu->index, 5))
QUERY(unsigned, nvmlDeviceGetCurrPcieLinkWidth, number("pcie_width", gpu->index, 16))
QUERY(unsigned, nvmlDeviceGetPersistenceMode, 1)
QUERY(unsigned, nvmlDeviceGetPerformanceState, number("perf_state", gpu->index, 0))
QUERY(u64, nvmlDeviceGetCurrentClocksEventReasons, number("reasons", gpu->index, 0))
QUERY(unsigned, nvmlDeviceGetPcieReplayCounter, number("pcie_replays", gpu->index, 0))
QUERY(u64, nvmlDeviceGetTotalEnergyConsumption, number("energy_mj", gpu->index, 1000000))

API int nvmlDeviceGetTotalEccErrors(gpu_t *gpu, unsigned kind, unsigned counter, u64 *out) {
  ENTER(gpu->index);
  if (kind > 1 || counter > 1) return INVALID;
  *out = number(kind ? "ecc_uncorrected" : "ecc_corrected", gpu->index, 0);
  return OK;
}
API int nvmlDeviceGetRemappedRows(gpu_t *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  ENTER(gpu->index);
  *corrected = (unsigned)number("remapped_corrected", gpu->index, 0);
  *uncorrected = (unsigned)number("remapped_uncorrected", gpu->index, 0);
  *pending = (unsigned)number("remap_pending", gpu->index, 0);
  *failed = (unsigned)number("remap_failed", gpu->index, 0);
  return OK;
}
/* Of the fields only the temperature of the memory is known. */
typedef struct {
  unsigned field, scope;
  long long at, latency;
  unsigned type;
  int code;
  union { unsigned word; u64 wide; } value;
} field_t;
API int nvmlDeviceGetFieldValues(gpu_t *gpu, int count, field_t *fields) {
  ENTER(gpu->index);
  for (field_t *field = fields; count-- > 0; field++) {
    field->type = 1;
    field->code = field->field == 82 && !of("no_memory_temperature", gpu->index) ? OK : UNSUPPORTED;
    field->value.word = (unsigned)number("memory_temperature", gpu->index, 41);
  }
  return OK;
}

#define PAIR(name, a, b) \
  API int name(gpu_t *gpu, unsigned *x, unsigned *y) { ENTER(gpu->index); *x = (a); *y = (b); return OK; }
PAIR(nvmlDeviceGetCudaComputeCapability, 12, 0)
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, 300000, 600000)
PAIR(nvmlDeviceGetEccMode, 1, 1)
PAIR(nvmlDeviceGetMigMode, (unsigned)number("mig", gpu->index, 0), (unsigned)number("mig", gpu->index, 0))

typedef struct { unsigned gpu, memory; } utilization_t;
API int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilization_t *out) {
  ENTER(gpu->index);
  if (number("mig", gpu->index, 0)) return UNSUPPORTED;
  out->gpu = (unsigned)number("utilization", gpu->index, 0);
  out->memory = (unsigned)number("memory_utilization", gpu->index, 0);
  return OK;
}
API int nvmlDeviceGetTemperature(gpu_t *gpu, unsigned sensor, unsigned *out) {
  ENTER(gpu->index);
  if (sensor) return INVALID;
  *out = (unsigned)number("temperature", gpu->index, 34);
  return OK;
}
API int nvmlDeviceGetClockInfo(gpu_t *gpu, unsigned clock, unsigned *out) {
  ENTER(gpu->index);
  if (clock != 1 && clock != 2) return INVALID;
  *out = clock == 1 ? (unsigned)number("sm_clock", gpu->index, 2430) : (unsigned)number("memory_clock", gpu->index, 12481);
  return OK;
}

#define TOTAL_MEMORY (97887 * MIB)
#define RESERVED_MEMORY (640 * MIB)
typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2_t;
API int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *out) {
  ENTER(gpu->index);
  out->total = TOTAL_MEMORY;
  out->used = number("memory_used", gpu->index, 0) + RESERVED_MEMORY;
  out->free = out->total - out->used;
  return OK;
}
API int nvmlDeviceGetMemoryInfo_v2(gpu_t *gpu, memory_v2_t *out) {
  ENTER(gpu->index);
  out->total = TOTAL_MEMORY;
  out->reserved = RESERVED_MEMORY;
  out->used = number("memory_used", gpu->index, 0);
  out->free = out->total - out->reserved - out->used;
  return OK;
}

typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_t;
static int processes(const char *key, int gpu, unsigned *count, process_t *out) {
  unsigned n = 0, room = *count;
  for (const char *p = of(key, gpu); p && *p && *p != '\n';) {
    char *end;
    unsigned pid = (unsigned)strtoul(p, &end, 10);
    u64 used = *end == ':' ? strtoull(end + 1, &end, 10) : ~0ULL;
    if (out && n < room) out[n] = (process_t){pid, used, ~0U, ~0U};
    n++;
    p = *end == ',' ? end + 1 : NULL;
  }
  *count = n;
  return n > room ? SIZE : OK;
}
#define PROCESSES(name, key) \
  API int name(gpu_t *gpu, unsigned *count, process_t *out) { ENTER(gpu->index); return processes(key, gpu->index, count, out); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")

/* What other tools ask besides. */
QUERY(unsigned, nvmlDeviceGetPowerManagementLimit, 600000)
QUERY(unsigned, nvmlDeviceGetComputeMode, 0)
QUERY(unsigned, nvmlDeviceGetDisplayActive, 0)
PAIR(nvmlDeviceGetEncoderUtilization, 0, 167000)
PAIR(nvmlDeviceGetDecoderUtilization, 0, 167000)
API int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
API int nvmlDeviceGetFanSpeed(gpu_t *gpu, unsigned *out) { (void)out; ENTER(gpu->index); return UNSUPPORTED; }
API int nvmlDeviceGetDriverModel(gpu_t *gpu, unsigned *now, unsigned *then) {
  (void)now, (void)then;
  ENTER(gpu->index);
  return UNSUPPORTED;
}
API int nvmlDeviceGetProcessUtilization(gpu_t *gpu, void *out, unsigned *count, u64 since) {
  (void)out, (void)since;
  ENTER(gpu->index);
  *count = 0;
  return NOT_FOUND;
}

/* Two sockets, four GPUs each; neighbours 0-1, 2-3, … share a PCIe bridge: where `paths` does not say otherwise. */
API int nvmlDeviceGetTopologyCommonAncestor(gpu_t *a, gpu_t *b, int *out) {
  ENTER(a->index);
  const char *p = of("paths", a->index);
  for (int at = 0; p && at < b->index; at++) {
    p += strcspn(p, ",\n");
    p = *p == ',' ? p + 1 : NULL;
  }
  *out = p ? atoi(p) : a->index / 2 == b->index / 2 ? 20 : a->index / 4 == b->index / 4 ? 40 : 50;
  return OK;
}

API int nvmlDeviceGetP2PStatus(gpu_t *a, gpu_t *b, unsigned index, unsigned *out) {
  ENTER(a->index);
  if (index > 4) return INVALID;
  *out = (unsigned)number("p2p", b->index, 0);
  return OK;
}

/* The far end of a link: a GPU's number, -1 for a switch, -2 for none, -3 for what is hidden. */
static int far_end(int gpu, unsigned link) {
  const char *p = of("nvlinks", gpu);
  while (p && link--) {
    p += strcspn(p, ",\n");
    p = *p == ',' ? p + 1 : NULL;
  }
  return !p ? -2 : *p == 's' ? -1 : *p == 'h' ? -3 : atoi(p);
}
API int nvmlDeviceGetNvLinkState(gpu_t *gpu, unsigned link, unsigned *out) {
  ENTER(gpu->index);
  if (!of("nvlinks", gpu->index)) return UNSUPPORTED;
  if (link >= 18) return INVALID;
  *out = far_end(gpu->index, link) != -2;
  return OK;
}
API int nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t *gpu, unsigned link, unsigned *out) {
  ENTER(gpu->index);
  int far = far_end(gpu->index, link);
  *out = far == -1 ? 2 : far == -3 ? 255 : 0;
  return OK;
}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t *gpu, unsigned link, pci_t *out) {
  ENTER(gpu->index);
  int far = far_end(gpu->index, link);
  pci_of(far, out);
  if (far == -3) {
    out->domain = 0xffffffff;
    out->bus = out->device = 0xff;
  }
  return OK;
}
