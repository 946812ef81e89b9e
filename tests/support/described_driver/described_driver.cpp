// A libcuda.so.1 that claims to have the GPUs of the environment variable DESCRIBED_GPUS: "VERSION
// COUNT CAPABILITY", such as "13000 2 90", or "VERSION -ERROR" for a driver that does not start.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

struct Described {
  int version = 0, count = 0, capability = 0;
  Described() {
    const char* const text = std::getenv("DESCRIBED_GPUS");
    if (text) std::sscanf(text, "%d %d %d", &version, &count, &capability);
  }
};

}  // namespace

extern "C" {
int cuInit(unsigned) {
  const Described d;
  return d.count < 0 ? -d.count : 0;
}
int cuDriverGetVersion(int* version) {
  *version = Described().version;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = Described().count;
  return 0;
}
int cuDeviceGetName(char* name, int size, int gpu) {
  std::snprintf(name, static_cast<std::size_t>(size), "NVIDIA %s", gpu == 0 ? "First" : "Other");
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = Described().capability;
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : -1;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{85'520'809'984};  // of an H100: 79.6 GiB
  return 0;
}
}
