// A libcuda.so.1 without a GPU, for tests that build cuDNN's plans: it accepts the code of kernels,
// finds their names in it, and runs nothing. Every other driver function is absent.
#include "image_driver.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kNoDevice = 100, kInvalidImage = 200, kNotFound = 500;
constexpr std::uint16_t kCudaMachine = 190;

struct Image {
  std::vector<unsigned char> bytes;

  template <class T>
  const T* at(std::uint64_t offset) const {
    return reinterpret_cast<const T*>(bytes.data() + offset);
  }
  const Elf64_Ehdr& header() const { return *at<Elf64_Ehdr>(0); }
};

std::mutex guard;
std::list<Image> images;
ringsched::LoadedCode loaded;

std::size_t elf_size(const unsigned char* p) {
  Elf64_Ehdr h;
  std::memcpy(&h, p, sizeof h);
  return std::max(h.e_shoff + std::uint64_t{h.e_shnum} * h.e_shentsize,
                  h.e_phoff + std::uint64_t{h.e_phnum} * h.e_phentsize);
}

// Code comes as a cubin, or in a wrapper (fatbinary_section.h) that points to one.
const unsigned char* cubin_in(const void* code) {
  constexpr std::uint32_t wrapper = 0x466243b1;
  std::uint32_t first = 0;
  std::memcpy(&first, code, sizeof first);
  const auto* p = static_cast<const unsigned char*>(code);
  if (first == wrapper) std::memcpy(&p, p + 8, sizeof p);
  return std::memcmp(p, ELFMAG, SELFMAG) == 0 ? p : nullptr;
}

// Since CUDA 13 (ABI version 8) the SM version is in the second byte of the flags, before in the
// first.
int sm_of(const Elf64_Ehdr& h) {
  return static_cast<int>(h.e_ident[EI_ABIVERSION] >= 8 ? h.e_flags >> 8 & 0xff : h.e_flags & 0xff);
}

bool has_function(const Image& image, const char* name) {
  const Elf64_Ehdr& h = image.header();
  for (int i = 0; i < h.e_shnum; ++i) {
    const auto* sections = image.at<Elf64_Shdr>(h.e_shoff);
    const Elf64_Shdr& table = sections[i];
    if (table.sh_type != SHT_SYMTAB) continue;
    const char* const names = image.at<char>(sections[table.sh_link].sh_offset);
    const auto* symbols = image.at<Elf64_Sym>(table.sh_offset);
    for (std::uint64_t k = 0; k < table.sh_size / sizeof(Elf64_Sym); ++k)
      if (std::strcmp(names + symbols[k].st_name, name) == 0) return true;
  }
  return false;
}

int load(void** out, const void* code) {
  const std::lock_guard lock(guard);
  const unsigned char* const cubin = cubin_in(code);
  if (!cubin) return kInvalidImage;
  const Image& image = images.emplace_back(Image{{cubin, cubin + elf_size(cubin)}});
  if (image.header().e_machine != kCudaMachine) return kInvalidImage;
  const int sm = sm_of(image.header());
  loaded.lowest_sm = loaded.images == 0 ? sm : std::min(loaded.lowest_sm, sm);
  loaded.highest_sm = std::max(loaded.highest_sm, sm);
  ++loaded.images;
  *out = const_cast<Image*>(&image);
  return kSuccess;
}

int find(void** out, void* image, const char* name) {
  const std::lock_guard lock(guard);
  const bool there = has_function(*static_cast<const Image*>(image), name);
  ++(there ? loaded.kernels : loaded.absent);
  *out = image;
  return there ? kSuccess : kNotFound;
}

int unload(const void* image) {
  const std::lock_guard lock(guard);
  images.remove_if([image](const Image& i) { return &i == image; });
  return kSuccess;
}

}  // namespace

#define DRIVER extern "C" __attribute__((visibility("default"))) int

// cuDNN looks for these when it loads the driver, and prints what it does not find.
#define REFUSES(name) \
  DRIVER name() { return kNoDevice; }
REFUSES(cuInit)
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetCount)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkDestroy)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)

REFUSES(cuFuncGetAttribute)
REFUSES(cuFuncSetAttribute)
REFUSES(cuKernelGetAttribute)
REFUSES(cuKernelGetFunction)
REFUSES(cuKernelSetAttribute)
REFUSES(cuLibraryGetModule)

DRIVER cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
DRIVER cuLibraryLoadData(void** out, const void* code, void*, void*, unsigned, void*, void*,
                         unsigned) {
  return load(out, code);
}
DRIVER cuLibraryGetKernel(void** out, void* library, const char* name) {
  return find(out, library, name);
}
DRIVER cuLibraryUnload(void* library) { return unload(library); }
DRIVER cuModuleLoadData(void** out, const void* code) { return load(out, code); }
DRIVER cuModuleLoadDataEx(void** out, const void* code, unsigned, void*, void*) {
  return load(out, code);
}
DRIVER cuModuleGetFunction(void** out, void* module, const char* name) {
  return find(out, module, name);
}
DRIVER cuModuleUnload(void* module) { return unload(module); }

extern "C" __attribute__((visibility("default"))) void ringsched_loaded_code(
    ringsched::LoadedCode* out) {
  const std::lock_guard lock(guard);
  *out = std::exchange(loaded, {});
}
