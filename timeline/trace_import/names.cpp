#include "names.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace ringsched::trace_import {

namespace {

using enum TraceWork;
using enum ExchangeForm;

struct Pattern {
  std::string_view part;
  TraceWork work;
  ExchangeForm form = ExchangeForm::Other;
};

// The first one that is a part of the name counts. Attention on GPUs is one main kernel, forward or
// backward, with small ones around it.
constexpr Pattern kKernels[] = {
    {"ncclDevKernel_SendRecv", SendReceive},
    {"ncclKernel_SendRecv", SendReceive},
    {"AllGather", Exchange, AllGather},
    {"ReduceScatter", Exchange, ReduceScatter},
    {"AllReduce", Exchange, AllReduce},
    {"Broadcast", Exchange, Broadcast},
    {"nccl", Exchange, Other},
    {"flash_bwd_dq_dk_dv", AttendBackward},  // FlashAttention-2
    {"FlashAttnBwdSm", AttendBackward},      // FlashAttention-3
    {"flash_bprop", AttendBackward},         // cuDNN
    {"fmha_cutlassB", AttendBackward},       // memory-efficient
    {"fmha_bwd", AttendBackward},
    {"combine", Compute},  // of parts of one attend
    {"Combine", Compute},
    {"flash_fwd", Attend},
    {"FlashAttnFwd", Attend},
    {"flash_fprop", Attend},
    {"fmha_cutlassF", Attend},
    {"fmha_fwd", Attend},
};
constexpr std::size_t kOfNccl = 7;  // only if "nccl" is a part of the name, too

constexpr Pattern kCollectives[] = {
    {"all_gather", Exchange, AllGather},
    {"allgather", Exchange, AllGather},
    {"all_to_all", Exchange, AllToAll},
    {"alltoall", Exchange, AllToAll},
    {"reduce_scatter", Exchange, ReduceScatter},
    {"all_reduce", Exchange, AllReduce},
    {"allreduce", Exchange, AllReduce},
    {"broadcast", Exchange, Broadcast},
    {"scatter", Exchange, Scatter},
    {"gather", Exchange, Gather},
    {"reduce", Exchange, Reduce},
    {"send", Send},
    {"recv", Receive},
};

// These only say where data lie, or allocate memory for them.
constexpr std::string_view kWithoutWork[] = {"alias",
                                             "as_strided",
                                             "chunk",
                                             "contiguous",
                                             "detach",
                                             "detach_",
                                             "empty",
                                             "empty_like",
                                             "empty_strided",
                                             "expand",
                                             "item",
                                             "lift_fresh",
                                             "narrow",
                                             "new_empty",
                                             "numpy_T",
                                             "permute",
                                             "promote_types",
                                             "reshape",
                                             "resize_",
                                             "result_type",
                                             "select",
                                             "set_",
                                             "slice",
                                             "split",
                                             "split_with_sizes",
                                             "squeeze",
                                             "t",
                                             "transpose",
                                             "unbind",
                                             "unflatten",
                                             "unsqueeze",
                                             "view",
                                             "view_as"};

const Pattern* first_in(std::string_view name, std::span<const Pattern> patterns) {
  const auto at = std::ranges::find_if(
      patterns, [&](const Pattern& p) { return name.find(p.part) != name.npos; });
  return at == patterns.end() ? nullptr : &*at;
}

Named named(const Pattern& p) { return {p.work, p.form}; }

}  // namespace

std::optional<Named> kernel_named(std::string_view name, std::string_view collective) {
  if (name == "attend") return Named{Attend};  // as `render --kineto` has them
  if (name == "attend_backward") return Named{AttendBackward};
  const std::span<const Pattern> all(kKernels);
  const bool nccl = name.find("nccl") != name.npos;
  const Pattern* found = first_in(name, nccl ? all.first(kOfNccl) : all.subspan(kOfNccl));
  if (!nccl || collective.empty()) return found == nullptr ? Named{} : named(*found);
  if (const Pattern* said = first_in(collective, kCollectives)) return named(*said);
  return named(*found);  // the last of them is "nccl"
}

std::optional<Named> cpu_event_named(std::string_view name) {
  for (const std::string_view backend : {"gloo:", "mpi:", "ucc:"}) {
    if (!name.starts_with(backend)) continue;
    const Pattern* said = first_in(name.substr(backend.size()), kCollectives);
    return said == nullptr ? std::nullopt : std::optional(named(*said));
  }
  constexpr std::string_view aten = "aten::";
  if (!name.starts_with(aten)) return std::nullopt;
  const std::string_view op = name.substr(aten.size());
  if (op == "_scaled_dot_product_flash_attention_for_cpu") return Named{Attend};
  if (op == "_scaled_dot_product_attention_math") return Named{Attend};
  if (op == "_scaled_dot_product_flash_attention_for_cpu_backward") return Named{AttendBackward};
  if (std::ranges::find(kWithoutWork, op) != std::end(kWithoutWork)) return std::nullopt;
  return Named{};
}

}  // namespace ringsched::trace_import
