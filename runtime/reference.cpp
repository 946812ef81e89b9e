#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringsched/runtime/numbers.hpp"

namespace ringsched {

namespace {

constexpr double kTiny = 1e-30;  // the loss if probabilities are too small for fp32

}  // namespace

double rounded_bound(Dtype dtype, double value, double bound) {
  if (dtype == Dtype::Fp32) return bound;  // nothing is rounded
  // Numbers near 0 have a spacing of their own; only fp16's is large enough to matter.
  const double least = dtype == Dtype::Fp16 ? 0x1p-25 : 0;
  return bound + spacing(dtype) / 2 * (std::abs(value) + bound) + least;
}

Reference::Reference(const Problem& problem, const Inputs& inputs)
    : problem_(problem),
      inputs_(inputs),
      dim_(problem.head_dim),
      scale_(score_scale(problem)),
      has_forward_(problem.heads) {
  for (auto& heads : made_) heads.resize(problem.heads);
}

const std::vector<float>& Reference::numbers(Matrix m, std::uint32_t head) {
  std::vector<float>& out = made_[static_cast<std::size_t>(m)][head];
  if (!out.empty()) return out;
  out.resize(static_cast<std::size_t>(problem_.tokens.value * dim_));
  for (std::int64_t t = 0; t < problem_.tokens.value; ++t)
    inputs_.row(
        m, t, head,
        std::span(out).subspan(static_cast<std::size_t>(t * dim_), static_cast<std::size_t>(dim_)));
  return out;
}

// How far off a weighted sum may be, as a share of the sum of its absolute terms: from rounding of
// weights to the dtype, and of scores and sums to fp32. Merges and exchanges add up the parts of a
// sum one by one, about as many as there are workers.
double Reference::rounding(double most) const {
  constexpr double fp32 = 0x1p-24;
  const double parts = std::max(64.0, static_cast<double>(problem_.workers));
  const double weights = problem_.dtype == Dtype::Fp32 ? 0 : spacing(problem_.dtype) / 2;
  return 4 * (weights + fp32 * (parts + 8 * most));
}

Reference::Row Reference::softmax(std::int64_t token, std::uint32_t head, bool with_delta) {
  const std::uint32_t kv = head / (problem_.heads / problem_.kv_heads);
  Row r;
  r.lse = -std::numeric_limits<double>::infinity();
  r.output.assign(static_cast<std::size_t>(dim_), 0);
  const float* q = row(Matrix::Query, head, token);
  std::vector<double> score;
  double highest = r.lse;
  for (std::int64_t k = 0; k < problem_.tokens.value; ++k) {
    if (!problem_.mask.visible(token, k)) continue;
    const float* x = row(Matrix::Key, kv, k);
    double sum = 0, size = 0;
    for (std::int64_t i = 0; i < dim_; ++i) {
      const double term = static_cast<double>(q[i]) * static_cast<double>(x[i]);
      sum += term;
      size += std::abs(term);
    }
    r.keys.push_back(k);
    score.push_back(sum * scale_);
    highest = sum * scale_ > highest || std::isnan(sum) ? sum * scale_ : highest;
    r.most = std::max(r.most, size * scale_);
  }
  if (r.keys.empty()) return r;
  double total = 0;
  for (const double s : score) total += std::exp(s - highest);
  r.lse = highest + std::log(total);
  for (std::size_t j = 0; j < r.keys.size(); ++j) {
    r.probability.push_back(std::exp(score[j] - r.lse));
    const float* v = row(Matrix::Value, kv, r.keys[j]);
    for (std::int64_t i = 0; i < dim_; ++i)
      r.output[static_cast<std::size_t>(i)] += r.probability[j] * static_cast<double>(v[i]);
  }
  if (!with_delta) return r;
  const float* g = row(Matrix::OutputGradient, head, token);
  for (std::int64_t i = 0; i < dim_; ++i) {
    const double term = static_cast<double>(g[i]) * r.output[static_cast<std::size_t>(i)];
    r.delta += term;
    r.delta_most += std::abs(term);
  }
  return r;
}

ReferenceRow Reference::output(std::int64_t token, std::uint32_t head) {
  const std::uint32_t kv = head / (problem_.heads / problem_.kv_heads);
  Row r = softmax(token, head, false);
  ReferenceRow out;
  out.bound.assign(r.output.size(), 0);
  for (std::size_t j = 0; j < r.keys.size(); ++j) {
    const float* v = row(Matrix::Value, kv, r.keys[j]);
    for (std::size_t i = 0; i < out.bound.size(); ++i)
      out.bound[i] += r.probability[j] * std::abs(static_cast<double>(v[i]));
  }
  for (double& b : out.bound) b = b * rounding(r.most) + kTiny;
  out.value = std::move(r.output);
  out.lse = r.lse;
  out.lse_bound = rounding(r.most) * (1 + std::abs(r.lse) * 0x1p-10);
  return out;
}

ReferenceRow Reference::query_gradient(std::int64_t token, std::uint32_t head) {
  const std::uint32_t kv = head / (problem_.heads / problem_.kv_heads);
  const Row r = softmax(token, head, true);
  const float* g = row(Matrix::OutputGradient, head, token);
  ReferenceRow out;
  out.value.assign(static_cast<std::size_t>(dim_), 0);
  out.bound.assign(static_cast<std::size_t>(dim_), kTiny);
  for (std::size_t j = 0; j < r.keys.size(); ++j) {
    const float* v = row(Matrix::Value, kv, r.keys[j]);
    const float* k = row(Matrix::Key, kv, r.keys[j]);
    double dp = 0, size = 0;
    for (std::int64_t i = 0; i < dim_; ++i) {
      const double term = static_cast<double>(g[i]) * static_cast<double>(v[i]);
      dp += term;
      size += std::abs(term);
    }
    for (std::size_t i = 0; i < out.value.size(); ++i) {
      const double x = static_cast<double>(k[i]) * scale_ * r.probability[j];
      out.value[i] += x * (dp - r.delta);
      out.bound[i] += std::abs(x) * (size + r.delta_most) * rounding(r.most);
    }
  }
  return out;
}

void Reference::compute_forward(std::uint32_t head) {
  if (has_forward_[head]) return;
  has_forward_[head] = true;
  const auto tokens = static_cast<std::size_t>(problem_.tokens.value);
  for (auto* column : {&forward_.lse, &forward_.delta, &forward_.size})
    column->resize(problem_.heads * tokens);
  for (std::size_t q = 0; q < tokens; ++q) {
    const Row r = softmax(static_cast<std::int64_t>(q), head, true);
    forward_.lse[head * tokens + q] = r.lse;
    forward_.delta[head * tokens + q] = r.delta;
    forward_.size[head * tokens + q] = r.delta_most;
  }
}

void Reference::key_value_gradients(std::int64_t token, std::uint32_t kv_head,
                                    const ForwardRows& given, ReferenceRow& key,
                                    ReferenceRow& value) {
  const auto dim = static_cast<std::size_t>(dim_);
  const std::int64_t tokens = problem_.tokens.value;
  for (ReferenceRow* r : {&key, &value}) {
    r->value.assign(dim, 0);
    r->bound.assign(dim, kTiny);
  }
  const std::uint32_t group = problem_.heads / problem_.kv_heads;
  const float* k = row(Matrix::Key, kv_head, token);
  const float* v = row(Matrix::Value, kv_head, token);
  for (std::uint32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    if (given.lse.empty()) compute_forward(head);
    const ForwardRows& forward = given.lse.empty() ? forward_ : given;
    for (std::int64_t q = 0; q < tokens; ++q) {
      if (!problem_.mask.visible(q, token)) continue;
      const float* x = row(Matrix::Query, head, q);
      const float* g = row(Matrix::OutputGradient, head, q);
      double score = 0, most = 0, dp = 0, dp_most = 0;
      for (std::int64_t i = 0; i < dim_; ++i) {
        const double s = static_cast<double>(x[i]) * static_cast<double>(k[i]) * scale_;
        const double d = static_cast<double>(g[i]) * static_cast<double>(v[i]);
        score += s;
        most += std::abs(s);
        dp += d;
        dp_most += std::abs(d);
      }
      const auto at = static_cast<std::size_t>(std::int64_t{head} * tokens + q);
      const double p = std::exp(score - forward.lse[at]);
      const double off = p * rounding(most);
      for (std::size_t i = 0; i < dim; ++i) {
        const double dy = static_cast<double>(g[i]), qx = static_cast<double>(x[i]) * scale_;
        value.value[i] += p * dy;
        value.bound[i] += off * std::abs(dy);
        key.value[i] += p * (dp - forward.delta[at]) * qx;
        key.bound[i] += off * (dp_most + forward.size[at]) * std::abs(qx);
      }
    }
  }
}

}  // namespace ringsched
