#include "backends/cuda/partitions.hpp"

#include <algorithm>

namespace ringsched::cuda {

Partition part(const Multiprocessors& m, std::uint32_t workers) {
  const std::uint32_t step = std::max(1u, m.step);
  const std::uint32_t each = m.all / std::max(1u, workers) / step * step;
  if (each < std::max(1u, m.least)) return {};
  return {each, m.all - each * workers};
}

Partition smaller(const Multiprocessors& m, const Partition& p, std::uint32_t workers) {
  const std::uint32_t step = std::max(1u, m.step);
  if (p.each < std::max(1u, m.least) + step) return {};
  return {p.each - step, p.left + step * workers};
}

std::vector<std::uint32_t> gpu_of_each(std::uint32_t workers, std::uint32_t gpus) {
  const std::uint32_t on_each = (workers + gpus - 1) / gpus;
  std::vector<std::uint32_t> out(workers);
  for (std::uint32_t w = 0; w < workers; ++w) out[w] = w / on_each;
  return out;
}

}  // namespace ringsched::cuda
