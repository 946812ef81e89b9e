#include "tables.hpp"

#include <algorithm>
#include <cmath>

#include "keys.hpp"

namespace ringsched {

namespace {

KernelTable read_kernel(Section& s) {
  KernelTable k;
  kernel_keys(s, k);
  const bool sized = s.table().contains("tokens") && s.table().contains("tflops");
  for (const char* needed : {"pass", "mask", "dtypes", "head_dim", "tokens", "tflops"})
    s.required(needed);
  if (sized && s.items("tflops") != s.items("tokens"))
    s.complain(
        *s.table().get("tflops"),
        fmt::format("kernel.tflops must have one number per entry of tokens; it has {} for {}",
                    s.items("tflops"), s.items("tokens")));
  if (s.items("heads") > 1 && s.items("heads") != s.items("tokens"))
    s.complain(*s.table().get("heads"),
               fmt::format("kernel.heads must have one number, or one per entry of tokens; it has "
                           "{} for {}",
                           s.items("heads"), s.items("tokens")));
  if (k.heads.size() == 1) k.heads.resize(k.tokens.size(), k.heads[0]);
  const auto in_order = [&](const char* key, const std::vector<double>& values) {
    const auto at = std::adjacent_find(values.begin(), values.end(), std::greater_equal<>());
    if (at != values.end())
      s.complain(*s.table().get(key),
                 fmt::format("kernel.{} must be in increasing order; {} follows {}", key,
                             *std::next(at), *at));
  };
  if (k.deals_blocks != DealsBlocks::Never &&
      (!(k.blocks.overhead_keys > 0) || k.blocks.per_sm > 1 || k.blocks.longest_first))
    s.complain(*s.table().get("deals_blocks"),
               "kernel.deals_blocks needs block_overhead_keys, one block on each SM "
               "(blocks_per_sm = 1), and blocks in order (no longest_first)");
  in_order("tokens", k.tokens);
  in_order("pads_head_dim_to", k.pads_head_dim_to);
  const auto part =
      std::ranges::find_if(k.pads_head_dim_to, [](double dim) { return dim != std::floor(dim); });
  if (part != k.pads_head_dim_to.end())
    s.complain(*s.table().get("pads_head_dim_to"),
               fmt::format("kernel.pads_head_dim_to must have whole numbers, not {}", *part));
  else if (k.padded(k.head_dim) != k.head_dim)
    s.complain(
        *s.table().get("pads_head_dim_to"),
        fmt::format("kernel.head_dim is {}, which pads_head_dim_to would fill up to {}; give "
                    "the times of {}",
                    k.head_dim, k.padded(k.head_dim), k.padded(k.head_dim)));
  return k;
}

bool same_kernel(const KernelTable& a, const KernelTable& b) {
  return a.library == b.library && a.backward == b.backward && a.shape == b.shape &&
         a.head_dim == b.head_dim;
}

// Takes the dtypes of `b` from `a`, and says which they were.
std::string take_dtypes(KernelTable& a, const KernelTable& b) {
  std::string taken;
  std::erase_if(a.dtypes, [&](Dtype d) {
    const bool both = std::find(b.dtypes.begin(), b.dtypes.end(), d) != b.dtypes.end();
    if (both) taken += (taken.empty() ? "" : ", ") + std::string(to_text(d));
    return both;
  });
  return taken;
}

bool same_exchange(const CollectiveTable& a, const CollectiveTable& b) {
  return a.kind == b.kind && a.per_node == b.per_node && a.nodes == b.nodes && a.groups == b.groups;
}

CollectiveTable read_collective(Section& s) {
  CollectiveTable c;
  collective_keys(s, c);
  for (const char* needed : {"kind", "per_node", "busbw"}) s.required(needed);
  if (std::uint64_t{c.per_node} * c.nodes == 1)
    s.complain(s.table(), "collective.per_node times collective.nodes is 1; use at least 2");
  return c;
}

}  // namespace

void read_kernels(Section& s, Machine& m, bool has_base) {
  const bool given = s.has("kernel");
  if (given && s.items("kernel") == 0) m.kernels.clear();
  std::vector<KernelTable> own;
  const auto read_one = [&](Section& t) {
    KernelTable k = read_kernel(t);
    if (k.library.empty() && has_base) k.library = m.library;
    for (const KernelTable& before : own) {
      KernelTable rest = k;
      if (!same_kernel(before, k)) continue;
      if (const std::string twice = take_dtypes(rest, before); !twice.empty())
        t.complain(t.table(),
                   fmt::format("kernel: a second table for {} {}, {}, head_dim {}{}",
                               k.backward ? "backward" : "forward",
                               k.shape == TileShape::Full ? "full" : "causal", twice, k.head_dim,
                               k.library.empty() ? "" : ", library " + k.library));
    }
    own.push_back(std::move(k));
  };
  s.sections("kernel", read_one, true, true);
  for (KernelTable& inherited : m.kernels)
    for (const KernelTable& k : own)
      if (same_kernel(inherited, k)) take_dtypes(inherited, k);
  for (KernelTable& inherited : m.kernels)
    if (!inherited.dtypes.empty()) own.push_back(std::move(inherited));
  m.kernels = std::move(own);
}

void drop_collectives(const toml::table& file, Machine& m) {
  const bool fabric = file.contains("fabric"), network = file.contains("network");
  std::erase_if(m.collectives,
                [&](const CollectiveTable& c) { return fabric || (network && c.nodes > 1); });
}

void read_collectives(Section& s, Machine& m) {
  if (s.has("collective") && s.items("collective") == 0) m.collectives.clear();
  const auto inherited = static_cast<std::ptrdiff_t>(m.collectives.size());
  std::vector<CollectiveTable> own;
  const auto read_one = [&](Section& t) {
    const CollectiveTable c = read_collective(t);
    if (std::any_of(own.begin(), own.end(),
                    [&](const CollectiveTable& o) { return same_exchange(o, c); }))
      t.complain(t.table(),
                 fmt::format("collective: a second table for {} with per_node {}, nodes {}, "
                             "groups {}",
                             to_text(c.kind), c.per_node, c.nodes, c.groups));
    own.push_back(c);
  };
  s.sections("collective", read_one, true, true);
  for (const CollectiveTable& c : own) {
    const auto end = m.collectives.begin() + inherited;
    const auto same = std::find_if(m.collectives.begin(), end,
                                   [&](const CollectiveTable& o) { return same_exchange(o, c); });
    if (same != end)
      *same = c;
    else
      m.collectives.push_back(c);
  }
}

}  // namespace ringsched
