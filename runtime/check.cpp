#include "ringsched/runtime/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "reference.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
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

bool is_rounded(const Plan& plan, ValueId v) { return plan.program.unrounded(v) != v; }

// Results whose rounded values the plan may output instead.
bool is_of(const Plan& plan, const Result& r, ValueId value) {
  return plan.program.unrounded(r.value) == value;
}

// The numbers of this head in a row of a result.
std::vector<float> numbers(const Plan& plan, const Place& p, std::size_t m) {
  const Result& r = *p.result;
  const TensorForm form =
      tensor_form(plan.program, r.value, plan.layout.rows(r.region), r.columns.count);
  const std::int64_t bytes = form.row_bytes[m] / r.columns.count;
  const std::byte* const first = r.data + form.at(m, p.row) + bytes * (p.head - r.columns.first);
  const Dtype dtype = plan.program.type(r.value).parts[m].element == Element::Fp32
                          ? Dtype::Fp32
                          : plan.problem.dtype;
  std::vector<float> out(static_cast<std::size_t>(bytes / size_of(dtype)));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = number_at(first, dtype, static_cast<std::int64_t>(i));
  return out;
}

// Whether any worker outputs this value, as it is or rounded.
bool puts_out(const Plan& plan, ValueId value) {
  return std::any_of(plan.tasks.begin(), plan.tasks.end(),
                     [&](const Task& t) { return is_output(t.kind) && plan.value(t) == value; });
}

// "output", "output, rounded to bf16": the same in all processes.
std::string called(const Plan& plan, const char* name, ValueId value) {
  const ValueId rounded = plan.program.rounded(value);
  if (plan.problem.dtype == Dtype::Fp32 || !rounded.valid() || !puts_out(plan, rounded))
    return name;
  return fmt::format("{}, rounded to {}", name, to_text(plan.problem.dtype));
}

// Rows of a value, separately for each head.
std::int64_t count_rows(const Plan& plan, const std::vector<Result>& results, ValueId value) {
  std::int64_t rows = 0;
  for (const Result& r : results)
    if (is_of(plan, r, value)) rows += plan.layout.rows(r.region).value * r.columns.count;
  return rows;
}

// All of them, or this many at random.
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
    if (!is_of(plan, r, value)) continue;
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
  Tally(const Plan& plan, std::string name, std::int64_t there) : plan_(plan) {
    of_.name = std::move(name);
    of_.there = there;
  }
  // A matrix of the result in this row.
  void look(const Place& p, std::size_t m, const ReferenceRow& row) {
    const std::vector<float> found = numbers(plan_, p, m);
    const Dtype dtype = plan_.problem.dtype;
    const bool rounded = is_rounded(plan_, p.result->value);
    for (std::size_t d = 0; d < row.value.size(); ++d)
      look(p, found[d], row.value[d],
           rounded ? rounded_bound(dtype, row.value[d], row.bound[d]) : row.bound[d]);
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
  const Plan& plan_;
  CheckedResults of_;
};

// The values before rounding, computed again: a rounded result has no log-sum-exp.
class Unrounded {
 public:
  Unrounded(const Plan& plan, const Inputs& inputs) : plan_(plan), inputs_(inputs) {}

  Place of(const Place& p) {
    if (!is_rounded(plan_, p.result->value)) return p;
    const Region region = p.result->region;
    const auto [known, is_new] = made_.try_emplace(region.first.value);
    Made& made = known->second;
    if (is_new || made.result.region != region) {
      const ValueId value = attention::kPartial;
      made.bytes.resize(
          static_cast<std::size_t>(plan_.program.bytes(value, plan_.layout.rows(region)).value));
      fill_forward_result(plan_, inputs_, region, made.bytes);
      made.result = {value, p.result->worker, region, plan_.program[value].all_columns(),
                     made.bytes.data()};
    }
    return {&made.result, p.row, p.token, p.head};
  }

 private:
  struct Made {
    std::vector<std::byte> bytes;
    Result result;
  };
  const Plan& plan_;
  const Inputs& inputs_;
  std::map<std::uint32_t, Made> made_;  // by the first chunk of its region
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
  Unrounded unrounded(plan, inputs);
  for (const Place& place :
       places(plan, results, attention::kPartial, std::numeric_limits<std::int64_t>::max(), 0)) {
    const Place at = unrounded.of(place);
    const auto i = static_cast<std::size_t>(at.head * p.tokens.value + at.token);
    out.lse[i] = static_cast<double>(numbers(plan, at, 1)[0]);
    inputs.row(Matrix::OutputGradient, at.token, at.head, gradient);
    const std::vector<float> output = numbers(plan, at, 0);
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
  const auto tally = [&](const char* name, ValueId value) {
    return Tally(plan, called(plan, name, value), count_rows(plan, results, value));
  };
  if (p.pass != Pass::Backward) {
    std::vector<Result> with_lse;
    for (const Result& r : results)
      if (r.value == attention::kPartial) with_lse.push_back(r);
    Tally outputs = tally("output", attention::kPartial),
          lses(plan, "log-sum-exp", count_rows(plan, with_lse, attention::kPartial));
    for (const Place& at : places(plan, results, attention::kPartial, most, options.seed)) {
      const ReferenceRow row = reference.output(at.token, at.head);
      outputs.look(at, 0, row);
      outputs.count();
      if (!is_rounded(plan, at.result->value)) {
        lses.look(at, numbers(plan, at, 1)[0], row.lse, row.lse_bound);
        lses.count();
      }
      between();
    }
    out.push_back(outputs.take());
    if (puts_out(plan, attention::kPartial)) out.push_back(lses.take());  // no rounded one has it
  }
  if (p.pass == Pass::Forward) return out;
  Tally queries = tally("query gradient", attention::kQueryGradient),
        keys = tally("key gradient", attention::kKeyValueGradient),
        values = tally("value gradient", attention::kKeyValueGradient);
  for (const Place& at : places(plan, results, attention::kQueryGradient, most, options.seed + 1)) {
    const ReferenceRow row = reference.query_gradient(at.token, at.head);
    queries.look(at, 0, row);
    queries.count();
    between();
  }
  for (const Place& at :
       places(plan, results, attention::kKeyValueGradient, most, options.seed + 2)) {
    ReferenceRow key, value;
    reference.key_value_gradients(at.token, at.head, forward, key, value);
    keys.look(at, 0, key);
    values.look(at, 1, value);
    keys.count();
    values.count();
    between();
  }
  for (Tally* t : {&queries, &keys, &values}) out.push_back(t->take());
  return out;
}

}  // namespace ringsched
