#include "costs.hpp"

#include <algorithm>

namespace ringsched {

namespace {

constexpr std::uint64_t kStragglers = 0x5354524147474c45u;  // a stream of its own

double unit(std::uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }

}  // namespace

Costs::Costs(const Workload& w, const Conditions& c)
    : workload_(w),
      compute_(w.compute.data()),
      amounts_(w.amounts.empty() ? nullptr : w.amounts.data()),
      issued_(w.issued.empty() ? nullptr : w.issued.data()),
      works_(w.plan->works.size()),
      noise_(c.noise),
      seed_(mixed(c.seed)) {
  for (std::size_t d = 0; d < kDistances; ++d) startup_[d] = w.startup[d].data();
  for (std::size_t k = 0; k < 2; ++k)
    slowed_[k] = w.slowed[k].empty() ? nullptr : w.slowed[k].data();
  for (const Work& work : w.plan->works) bytes_.push_back(static_cast<double>(work.bytes.value));

  if (c.deviation != Deviation{}) deviate(c.deviation);

  factor_ = c.slow_worker;
  if (c.straggler_share > 0) {
    factor_.resize(w.plan->problem.workers, 1);
    for (std::size_t r = 0; r < factor_.size(); ++r)
      if (unit(mixed(seed_ ^ kStragglers ^ r)) < c.straggler_share)
        factor_[r] *= c.straggler_factor;
  }
}

void Costs::deviate(const Deviation& d) {
  deviation_ = d;
  far_ = d.bytes_between / d.bytes;
  const Plan& plan = *workload_.plan;
  const auto factor = [&](TaskKind kind, std::size_t work) {
    if (!is_attend(kind)) return communicates(kind) ? 1.0 : d.pass;
    const std::size_t at = static_cast<std::size_t>(kind) * works_ + work;
    return d.attending(kind == TaskKind::AttendBackward, plan.works[work].form,
                       workload_.doubt.empty() ? 0 : workload_.doubt[at]);
  };
  for (std::size_t at = 0; at < workload_.compute.size(); ++at) {
    const std::int64_t usual = workload_.compute[at];
    const std::int64_t least =
        workload_.at_peak.empty() ? 0 : std::min(usual, workload_.at_peak[at]);
    own_compute_.push_back(
        std::max(least, scaled(usual, factor(static_cast<TaskKind>(at / works_), at % works_))));
  }
  compute_ = own_compute_.data();
  // Bytes, and how much slower short messages are, depend on the links; latency does not.
  const auto bytes = [&](std::size_t work) {
    const std::size_t at = static_cast<std::size_t>(TaskKind::Send) * works_ + work;
    return d.bytes * Deviation::factor(workload_.doubt.empty() ? 0 : workload_.doubt[at] * d.doubt);
  };
  for (std::size_t i = 0; i < kDistances; ++i) {
    const double far = static_cast<Distance>(i) == Distance::OtherNode ? far_ : 1;
    for (std::size_t w = 0; w < workload_.startup[i].size(); ++w) {
      const std::int64_t all = workload_.startup[i][w];
      const std::int64_t latency = std::min(all, workload_.latency[i]);
      own_startup_[i].push_back(scaled(latency, d.startup) +
                                scaled(all - latency, bytes(w % works_) * far));
    }
    startup_[i] = own_startup_[i].data();
  }
  for (std::size_t w = 0; w < works_; ++w) bytes_[w] *= bytes(w);
  if (amounts_) {
    own_amounts_.resize(plan.tasks.size());
    for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
      const Task& t = plan.tasks[id];
      own_amounts_[id] = scaled(
          amounts_[id], is_send(t.kind) ? bytes(t.work.value) : factor(t.kind, t.work.value));
    }
    amounts_ = own_amounts_.data();
  }
  if (issued_) {
    own_issued_.resize(plan.tasks.size());
    for (std::size_t id = 0; id < plan.tasks.size(); ++id)
      own_issued_[id] = scaled(issued_[id], d.host);
    issued_ = own_issued_.data();
  }
}

// The slowest member packs last.
ExchangeTimes Costs::exchange(std::uint32_t number) const {
  const ExchangeCost& cost = workload_.exchanges[number];
  const std::uint32_t first = workload_.plan->exchanges[number].first.value;
  ExchangeTimes out{0, cost.startup, 0, cost.wire, cost.stretch};
  for (std::uint32_t m = 0; m < cost.packing.size(); ++m) {
    const double factor =
        factor_.empty() ? 1 : factor_[workload_.plan->tasks[first + m].worker_index];
    out.packing = std::max(out.packing, scaled(cost.packing[m], factor));
    out.unpacking = std::max(out.unpacking, scaled(cost.unpacking[m], factor));
  }
  if (deviation_ != Deviation{}) {
    for (std::int64_t* ps : {&out.packing, &out.unpacking}) *ps = scaled(*ps, deviation_.pass);
    out.startup = scaled(out.startup, deviation_.startup);
    const double bytes = (cost.nodes > 1 ? deviation_.bytes_between : deviation_.bytes) *
                         Deviation::factor(cost.doubt * deviation_.doubt);
    out.wire = scaled(out.wire, bytes);
    out.stretch *= bytes;
  }
  if (noise_ > 0) {
    const double factor = noise_at(first);
    for (std::int64_t* ps : {&out.packing, &out.startup, &out.unpacking, &out.wire})
      *ps = scaled(*ps, factor);
    out.stretch *= factor;
  }
  return out;
}

// 1 + noise times a sum of four uniform numbers, centred and of variance 1: close to normal, never
// far out, and the same on every machine, which a logarithm would not be.
double Costs::noise_at(std::uint32_t id) const {
  const std::uint64_t h = mixed(seed_ + id);
  std::uint64_t sum = 0;
  for (int part = 0; part < 4; ++part) sum += h >> (16 * part) & 0xffff;
  constexpr double mean = 2 * 65535.0, per_sigma = 1.7320508075688772 / 65535;
  return std::max(0.0, 1 + noise_ * (static_cast<double>(sum) - mean) * per_sigma);
}

}  // namespace ringsched
