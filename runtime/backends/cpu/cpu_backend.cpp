#include "ringsched/runtime/cpu_backend.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "combine.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/error.hpp"
#include "transports/local.hpp"
#include "visible.hpp"

namespace ringsched {

std::shared_ptr<CoreGate> make_core_gate(unsigned cores, bool alone, const Control& control) {
  return std::make_shared<CoreGate>(cores, alone, control);
}

std::unique_ptr<Device> make_cpu_device(const Plan& plan, WorkerId worker,
                                        std::span<const TaskId> tasks, Control& control,
                                        const CpuOptions& options) {
  return std::make_unique<CpuDevice>(plan, worker, tasks, control, options);
}

std::unique_ptr<Transport> make_local_transport(const Plan& plan, const Control& control) {
  return std::make_unique<LocalTransport>(plan, control);
}

// Chunk of keys by chunk, merged.
void fill_forward_result(const Plan& plan, const Inputs& inputs, const InitialTensor& tensor,
                         std::span<std::byte> out) {
  const Piece& piece = plan.piece(tensor);
  if (piece.columns != plan.program[attention::kPartial].all_columns())
    fail("a forward result is made for all heads or not at all");
  fill_forward_result(plan, inputs, plan.regions[piece.rows.value], out);
}

void fill_forward_result(const Plan& plan, const Inputs& inputs, Region region,
                         std::span<std::byte> out) {
  const Problem& p = plan.problem;
  const auto all_heads = [&](ValueId value) { return plan.program[value].all_columns(); };
  const Tokens rows = plan.layout.rows(region);
  const auto bytes = [&](ValueId kind, Tokens of) {
    const TensorForm form = tensor_form(plan.program, kind, of);
    return static_cast<std::size_t>(form.at(2) + form.rows * form.row_bytes[2]);
  };
  std::vector<std::byte> query(bytes(attention::kQuery, rows));
  inputs.fill(plan.program, attention::kQuery, all_heads(attention::kQuery), plan.layout, region,
              query);
  const TensorForm form = tensor_form(plan.program, attention::kPartial, rows);
  auto* output = reinterpret_cast<float*>(out.data());
  auto* lse = reinterpret_cast<float*>(out.data() + form.at(1));
  std::fill_n(output, rows.value * p.heads * p.head_dim, 0.0f);
  std::fill_n(lse, rows.value * p.heads, -std::numeric_limits<float>::infinity());

  std::vector<std::int64_t> positions;
  for (const TokenRange& range : plan.layout.ranges(region))
    for (std::int64_t i = 0; i < range.count; ++i) positions.push_back(range.position(i));
  std::vector<std::int32_t> query_rows(positions.size());
  std::iota(query_rows.begin(), query_rows.end(), 0);
  std::vector<float> partial(bytes(attention::kPartial, rows) / 4);
  std::vector<std::byte> key_value;
  cpu::Scratch scratch;
  for (std::uint32_t c = 0; c < plan.layout.chunks.size(); ++c) {
    const TokenRange& chunk = plan.layout.chunks[c];
    if (chunk.count == 0) continue;
    key_value.resize(bytes(attention::kKeyValue, {chunk.count}));
    inputs.fill(plan.program, attention::kKeyValue, all_heads(attention::kKeyValue), plan.layout,
                {{c}, 1}, key_value);
    std::vector<std::int64_t> keys;
    std::vector<std::int32_t> key_rows(static_cast<std::size_t>(chunk.count));
    for (std::int64_t i = 0; i < chunk.count; ++i) keys.push_back(chunk.position(i));
    std::iota(key_rows.begin(), key_rows.end(), 0);
    const auto visible = visible_keys(p.mask, positions, keys);
    const TensorForm kv = tensor_form(plan.program, attention::kKeyValue, {chunk.count});
    cpu::attend(cpu_shape(p), {query_rows, key_rows, visible}, query.data(), key_value.data(),
                key_value.data() + kv.at(1), partial.data(), partial.data() + form.at(1) / 4,
                scratch);
    merge_partials(output, lse, partial.data(), partial.data() + form.at(1) / 4,
                   rows.value * p.heads, p.head_dim);
  }
}

std::string cpu_instructions(Dtype dtype) {
  Problem p;
  p.dtype = dtype;
  try {
    return std::string(cpu::attention_isa(cpu_shape(p).element));
  } catch (const std::invalid_argument& wrong) {  // what the environment asks for
    throw Error(wrong.what());
  }
}

}  // namespace ringsched
