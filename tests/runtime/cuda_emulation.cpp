#include "runtime/cuda_emulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "backends/cuda/attention_rows.hpp"
#include "runtime/plans_to_run.hpp"

namespace ringsched::cuda {

namespace {

struct Softmax {
  std::vector<double> weight;  // by key
  double lse = -std::numeric_limits<double>::infinity();
};

double number(const std::byte* m, Dtype d, std::int64_t row, std::uint32_t dim, std::uint32_t i) {
  return static_cast<double>(number_at(m, d, row * dim + i));
}

std::int64_t seen(const Shape& s, std::int64_t row) {
  return s.causal ? std::min(row + 1, s.keys) : s.keys;
}

double score(const Shape& s, const std::byte* q, const std::byte* k, std::int64_t i, std::int64_t j,
             std::uint32_t head) {
  const std::uint32_t kv = head / (s.heads / s.kv_heads);
  double sum = 0;
  for (std::uint32_t d = 0; d < s.head_dim; ++d)
    sum += number(q, s.dtype, i * s.heads + head, s.head_dim, d) *
           number(k, s.dtype, j * s.kv_heads + kv, s.head_dim, d);
  return sum / std::sqrt(static_cast<double>(s.head_dim));
}

void require_aligned(std::initializer_list<const void*> all) {
  for (const void* p : all)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) throw std::logic_error("not aligned");
}

void emulate_call(const LibraryForward& f) {
  const Shape& s = f.shape;
  require_aligned({f.query, f.key, f.value, f.output, f.stats});
  for (std::uint32_t head = 0; head < s.heads; ++head)
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const std::uint32_t kv = head / (s.heads / s.kv_heads);
      double most = -std::numeric_limits<double>::infinity(), total = 0;
      std::vector<double> scores;
      for (std::int64_t j = 0; j < seen(s, i); ++j) {
        scores.push_back(score(s, f.query, f.key, i, j, head));
        most = std::isnan(scores.back()) ? scores.back() : std::max(most, scores.back());
      }
      for (double& x : scores) total += x = std::exp(x - most);
      f.stats[head * s.rows + i] = static_cast<float>(most + std::log(total));
      for (std::uint32_t d = 0; d < s.head_dim; ++d) {
        double sum = 0;
        for (std::size_t j = 0; j < scores.size(); ++j)
          sum += scores[j] / total *
                 number(f.value, s.dtype, static_cast<std::int64_t>(j) * s.kv_heads + kv,
                        s.head_dim, d);
        put_number(f.output, s.dtype, (i * s.heads + head) * s.head_dim + d,
                   static_cast<float>(sum));
      }
    }
}

// Delta is formed from the output and its gradient, as the library does.
void emulate_call(const LibraryBackward& f) {
  const Shape& s = f.shape;
  require_aligned({f.query, f.key, f.value, f.output, f.output_gradient, f.stats, f.query_gradient,
                   f.key_gradient, f.value_gradient});
  const auto size = [&](std::int64_t rows, std::uint32_t heads) {
    return static_cast<std::size_t>(rows * heads * s.head_dim);
  };
  std::vector<double> dq(size(s.rows, s.heads)), dk(size(s.keys, s.kv_heads)), dv(dk.size());
  for (std::uint32_t head = 0; head < s.heads; ++head)
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const std::uint32_t kv = head / (s.heads / s.kv_heads);
      const std::int64_t q_row = i * s.heads + head;
      double delta = 0;
      for (std::uint32_t d = 0; d < s.head_dim; ++d)
        delta += number(f.output, s.dtype, q_row, s.head_dim, d) *
                 number(f.output_gradient, s.dtype, q_row, s.head_dim, d);
      for (std::int64_t j = 0; j < seen(s, i); ++j) {
        const std::int64_t k_row = j * s.kv_heads + kv;
        const double p = std::exp(score(s, f.query, f.key, i, j, head) -
                                  static_cast<double>(f.stats[head * s.rows + i]));
        double dp = 0;
        for (std::uint32_t d = 0; d < s.head_dim; ++d)
          dp += number(f.output_gradient, s.dtype, q_row, s.head_dim, d) *
                number(f.value, s.dtype, k_row, s.head_dim, d);
        const double slope = p * (dp - delta) / std::sqrt(static_cast<double>(s.head_dim));
        for (std::uint32_t d = 0; d < s.head_dim; ++d) {
          const auto q_at = static_cast<std::size_t>(q_row * s.head_dim + d);
          const auto k_at = static_cast<std::size_t>(k_row * s.head_dim + d);
          dq[q_at] += slope * number(f.key, s.dtype, k_row, s.head_dim, d);
          dk[k_at] += slope * number(f.query, s.dtype, q_row, s.head_dim, d);
          dv[k_at] += p * number(f.output_gradient, s.dtype, q_row, s.head_dim, d);
        }
      }
    }
  const auto put = [&](std::byte* to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < from.size(); ++i)
      put_number(to, s.dtype, static_cast<std::int64_t>(i), static_cast<float>(from[i]));
  };
  put(f.query_gradient, dq);
  put(f.key_gradient, dk);
  put(f.value_gradient, dv);
}

void emulate_call(const Zero& s) { std::memset(s.to, 0, static_cast<std::size_t>(s.bytes)); }
void emulate_call(const Copy& s) { std::memcpy(s.to, s.from, static_cast<std::size_t>(s.bytes)); }
template <class S>
void emulate_call(const S& s) {
  for (std::int64_t r = 0; r < rows_of(s); ++r) row(s, r, Alone{});
}

std::byte* data(std::vector<std::uint64_t>& words) {
  return reinterpret_cast<std::byte*>(words.data());
}

// With room to begin at a multiple of 64 bytes, as on a GPU, and full of NaNs.
std::byte* make_block(std::vector<std::uint64_t>& words, std::int64_t bytes) {
  words.assign(static_cast<std::size_t>(bytes) / 8 + 16, ~std::uint64_t{0});
  const auto at = reinterpret_cast<std::uintptr_t>(words.data());
  return data(words) + (64 - at % 64) % 64;
}

}  // namespace

void emulate(const DeviceCall& call) {
  std::visit([](const auto& s) { emulate_call(s); }, call);
}

class Emulation::Worker final : public StreamDevice {
 public:
  Worker(Emulation& all, WorkerId w) : StreamDevice(all.streams_, w), all_(all) {}
  std::byte* allocate(Bytes bytes) override {
    return make_block(all_.blocks_[worker_.value], bytes.value);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  void start(Clock::time_point) override { all_.start(worker_); }
  bool finished() const override { return true; }
  void join() override {}
  TaskTime time_of(TaskId) const override { return {}; }
  LaneState state(Lane) const override { return {}; }

 private:
  Emulation& all_;
};

Emulation::Emulation(const Plan& plan, const Lowering::Refusal& refuses, std::uint64_t seed,
                     bool check_finite)
    : plan_(plan),
      streams_(plan),
      transport_(streams_),
      lowering_(plan, all_workers(plan), refuses),
      random_(seed),
      check_finite_(check_finite),
      blocks_(plan.problem.workers),
      scratch_(plan.problem.workers) {
  const auto bounds = plan.problem.mask.document_bounds();
  bounds_.assign(bounds.begin(), bounds.end());
}

Emulation::~Emulation() = default;

std::unique_ptr<Device> Emulation::device(WorkerId w) {
  ++created_;
  make_block(scratch_[w.value], lowering_.scratch_bytes(w));
  return std::make_unique<Worker>(*this, w);
}

const std::int32_t* Emulation::positions(Region region) {
  std::vector<std::int32_t>& out = positions_.emplace_back();
  for (const TokenRange& range : plan_.layout.ranges(region))
    for (std::int64_t i = 0; i < range.count; ++i)
      out.push_back(static_cast<std::int32_t>(range.position(i)));
  return out.data();
}

void Emulation::start(WorkerId) {
  if (++started_ < created_) return;
  started_ = 0;
  play();
}

void Emulation::play() {
  const auto& lanes = streams_.lanes();
  std::vector<std::size_t> at(lanes.size(), 0);
  std::vector<bool> recorded(streams_.events(), false);
  // Now and then one lane is far ahead of all others, or far behind.
  const std::uint32_t favourite = static_cast<std::uint32_t>(random_() % lanes.size());
  const bool ahead = random_() % 2 == 0;
  while (true) {
    std::vector<std::uint32_t> ready;
    bool over = true;
    for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
      if (at[lane] == lanes[lane].size()) continue;
      over = false;
      const Op& op = lanes[lane][at[lane]];
      if (op.kind != Op::Kind::Wait || recorded[op.event]) ready.push_back(lane);
    }
    if (over) return;
    if (ready.empty()) throw std::logic_error("the streams wait for each other");
    std::uint32_t lane = ready[random_() % ready.size()];
    if (std::count(ready.begin(), ready.end(), favourite) > 0 && random_() % 4 != 0) {
      if (ahead) lane = favourite;
      if (!ahead && lane == favourite) lane = ready[random_() % ready.size()];
    }
    const Op& op = lanes[lane][at[lane]++];
    if (op.kind == Op::Kind::Record || op.kind == Op::Kind::End) recorded[op.event] = true;
    perform(lane, op);
  }
}

void Emulation::perform(std::uint32_t lane, const Op& op) {
  if (op.kind == Op::Kind::Call) streams_.function(op)();
  if (op.kind == Op::Kind::Copy)
    for (const CopiedPiece& piece : pieces(streams_.delivery(op)))
      std::memcpy(piece.to, piece.from, static_cast<std::size_t>(piece.bytes));
  if (op.kind != Op::Kind::Compute) return;
  std::vector<std::uint64_t>& words = scratch_[streams_.numbers().worker(lane).value];
  Surroundings around;
  const auto address = reinterpret_cast<std::uintptr_t>(words.data());
  around.scratch = data(words) + (64 - address % 64) % 64;
  around.positions = [this](Region r) { return positions(r); };
  around.mask = mask_view(plan_.problem.mask);
  around.mask.bounds = bounds_.data();
  if (check_finite_) around.not_finite = &not_finite_;
  for (const DeviceCall& call : lowering_.calls(op.task, streams_.operands(op), around))
    emulate(call);
  positions_.clear();
}

std::unique_ptr<Execution> execution_of(const Plan& plan, Emulation& gpu, Control& control,
                                        const Inputs& inputs) {
  return std::make_unique<Execution>(
      plan, all_workers(plan), [&](WorkerId w, std::span<const TaskId>) { return gpu.device(w); },
      gpu.transport(), control, fill_from(plan, inputs));
}

}  // namespace ringsched::cuda
