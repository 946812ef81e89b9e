#include "ringsched/runtime/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "reference.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"

namespace ringsched {

namespace {

constexpr std::int64_t kSampled = 64;

// A row of one head in a result.
struct Place {
  const Result* result = nullptr;
  std::int64_t row = 0, token = 0;
  std::uint32_t head = 0;
};

// The numbers of this head in a row of a result.
const float* numbers(const Plan& plan, const Place& p, std::size_t m) {
  const Result& r = *p.result;
  const TensorForm form =
      tensor_form(plan.program, r.value, plan.layout.rows(r.region), r.columns.count);
  return reinterpret_cast<const float*>(r.data + form.at(m, p.row) +
                                        form.row_bytes[m] / r.columns.count *
                                            (p.head - r.columns.first));
}

// Rows of a value, each head's for itself.
std::int64_t count_rows(const Plan& plan, const std::vector<Result>& results, ValueId value) {
  std::int64_t rows = 0;
  for (const Result& r : results)
    if (r.value == value) rows += plan.layout.rows(r.region).value * r.columns.count;
  return rows;
}

// All of them, or so many at random.
std::vector<Place> places(const Plan& plan, const std::vector<Result>& results, ValueId value,
                          std::int64_t most, std::uint64_t seed) {
  std::vector<Place> all;
  const std::int64_t there = count_rows(plan, results, value);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> chosen;
  if (most >= there) {
    for (std::int64_t i = 0; i < there; ++i) chosen.push_back(i);
  } else {
    for (std::int64_t i = 0; i < most; ++i)
      chosen.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(there)));
    std::sort(chosen.begin(), chosen.end());
  }
  auto next = chosen.begin();
  std::int64_t before = 0;  // of all results, those that have been looked through
  for (const Result& r : results) {
    if (r.value != value) continue;
    const std::int64_t heads = r.columns.count;
    std::int64_t row = 0;
    for (const TokenRange& range : plan.layout.ranges(r.region)) {
      while (next != chosen.end() && (*next - before) / heads < row + range.count) {
        const std::int64_t at = (*next - before) / heads;
        const auto head = static_cast<std::uint32_t>((*next - before) % heads) + r.columns.first;
        all.push_back({&r, at, range.position(at - row), head});
        ++next;
      }
      row += range.count;
    }
    before += row * heads;
  }
  return all;
}

class Tally {
 public:
  Tally(std::string name, std::int64_t there) {
    of_.name = std::move(name);
    of_.there = there;
  }
  void look(const Place& p, float found, double expected, double bound) {
    const bool same = std::isinf(expected) && static_cast<double>(found) == expected;
    const double error = same ? 0 : std::abs(static_cast<double>(found) - expected);
    if (std::isfinite(expected))
      of_.largest_value = std::max(of_.largest_value, std::abs(expected));
    of_.largest_error = std::isnan(error) ? error : std::max(of_.largest_error, error);
    const double part = same ? 0 : error / bound;
    if (part <= of_.of_bound || std::isnan(of_.of_bound)) return;
    of_.of_bound = part;
    of_.worst =
        fmt::format("token {}, head {}, on worker {}", p.token, p.head, p.result->worker.value);
  }
  void count() { ++of_.rows; }
  CheckedResults take() { return std::move(of_); }

 private:
  CheckedResults of_;
};

}  // namespace

void CheckedResults::add(const CheckedResults& other) {
  rows += other.rows;
  there += other.there;
  largest_value = std::max(largest_value, other.largest_value);
  if (std::isnan(other.largest_error) || other.largest_error > largest_error)
    largest_error = other.largest_error;
  if (!(other.of_bound <= of_bound)) {
    of_bound = other.of_bound;
    worst = other.worst;
  }
}

bool is_small(const Problem& p) {
  constexpr double pairs = 1 << 23;
  const auto n = static_cast<double>(p.tokens.value);
  return n * n * p.heads <= pairs;
}

bool needs_forward_rows(const Problem& p, const CheckOptions&) {
  return p.pass != Pass::Forward && !is_small(p);
}

ForwardRows forward_rows(const Plan& plan, const Inputs& inputs,
                         const std::vector<Result>& results) {
  const Problem& p = plan.problem;
  ForwardRows out;
  const auto count = static_cast<std::size_t>(p.heads * p.tokens.value);
  out.lse.assign(count, 0);
  out.delta.assign(count, 0);
  out.size.assign(count, 0);
  std::vector<float> gradient(p.head_dim);
  for (const Place& at :
       places(plan, results, attention::kPartial, std::numeric_limits<std::int64_t>::max(), 0)) {
    const auto i = static_cast<std::size_t>(at.head * p.tokens.value + at.token);
    out.lse[i] = static_cast<double>(*numbers(plan, at, 1));
    inputs.row(Matrix::OutputGradient, at.token, at.head, gradient);
    const float* output = numbers(plan, at, 0);
    for (std::uint32_t d = 0; d < p.head_dim; ++d) {
      const double term = static_cast<double>(gradient[d]) * static_cast<double>(output[d]);
      out.delta[i] += term;
      out.size[i] += std::abs(term);
    }
  }
  return out;
}

std::vector<CheckedResults> check_results(const Plan& plan, const Inputs& inputs,
                                          const std::vector<Result>& results,
                                          const CheckOptions& options, const ForwardRows& forward,
                                          const std::function<void()>& between) {
  const Problem& p = plan.problem;
  const std::int64_t most = options.rows > 0 ? options.rows
                            : is_small(p)    ? std::numeric_limits<std::int64_t>::max()
                                             : kSampled;
  Reference reference(p, inputs);
  std::vector<CheckedResults> out;
  if (p.pass != Pass::Backward) {
    const std::int64_t there = count_rows(plan, results, attention::kPartial);
    Tally outputs("output", there), lses("log-sum-exp", there);
    for (const Place& at : places(plan, results, attention::kPartial, most, options.seed)) {
      const ReferenceRow row = reference.output(at.token, at.head);
      const float* found = numbers(plan, at, 0);
      for (std::size_t d = 0; d < row.value.size(); ++d)
        outputs.look(at, found[d], row.value[d], row.bound[d]);
      lses.look(at, *numbers(plan, at, 1), row.lse, row.lse_bound);
      outputs.count();
      lses.count();
      between();
    }
    out.push_back(outputs.take());
    out.push_back(lses.take());
  }
  if (p.pass == Pass::Forward) return out;
  const std::int64_t there = count_rows(plan, results, attention::kKeyValueGradient);
  Tally queries("query gradient", count_rows(plan, results, attention::kQueryGradient)),
      keys("key gradient", there), values("value gradient", there);
  for (const Place& at : places(plan, results, attention::kQueryGradient, most, options.seed + 1)) {
    const ReferenceRow row = reference.query_gradient(at.token, at.head);
    const float* found = numbers(plan, at, 0);
    for (std::size_t d = 0; d < row.value.size(); ++d)
      queries.look(at, found[d], row.value[d], row.bound[d]);
    queries.count();
    between();
  }
  for (const Place& at :
       places(plan, results, attention::kKeyValueGradient, most, options.seed + 2)) {
    ReferenceRow key, value;
    reference.key_value_gradients(at.token, at.head, forward, key, value);
    for (std::size_t m = 0; m < 2; ++m) {
      const ReferenceRow& row = m == 0 ? key : value;
      const float* found = numbers(plan, at, m);
      for (std::size_t d = 0; d < row.value.size(); ++d)
        (m == 0 ? keys : values).look(at, found[d], row.value[d], row.bound[d]);
    }
    keys.count();
    values.count();
    between();
  }
  for (Tally* t : {&queries, &keys, &values}) out.push_back(t->take());
  return out;
}

}  // namespace ringsched
