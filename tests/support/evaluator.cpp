#include "support/evaluator.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace ringsched {

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr std::size_t kMean = 0, kLse = 1;                             // of a softmax value
constexpr std::size_t kKey = 0, kValue = 1;                            // of keys and values
constexpr std::size_t kPreparedLse = 0, kDelta = 1, kOutGradient = 2;  // of what is prepared

std::uint32_t key_head(Dense& q, Dense& kv, std::uint32_t head) {
  return head / (q.columns() / kv.columns());
}

}  // namespace

Dense::Dense(const Program& p, ValueId v, std::int64_t tokens) : columns_(p[v].columns.count) {
  for (const Part& part : p.type(v).parts) {
    widths_.push_back(part.scalar ? 1 : p[v].columns.width);
    const bool is_lse = part.name == "lse";
    parts_.emplace_back(static_cast<std::size_t>(tokens) * columns_ * widths_.back(),
                        is_lse ? Number(kNothing) : Number());
  }
}

void Evaluator::run(std::vector<Dense>& values) const {
  values.resize(program_.size());
  for (std::uint32_t v = 0; v < program_.size(); ++v)
    if (values[v].parts() == 0) values[v] = Dense(program_, {v}, tokens_);
  for (const Statement& s : program_.statements) {
    if (!s.asked) continue;
    std::vector<Dense> made = terms(s, values, 0, tokens_);
    for (std::size_t i = 0; i < made.size(); ++i) {
      Dense& all = values[s.outputs[i].value];
      all = sum(s.outputs[i], all, made[i]);
    }
  }
}

Dense Evaluator::sum(ValueId v, Dense a, Dense b) const {
  Dense out(program_, v, tokens_);
  if (program_.type(v).algebra == Algebra::Softmax) {
    for (std::int64_t t = 0; t < tokens_; ++t)
      for (std::uint32_t h = 0; h < out.columns(); ++h) {
        const Number x = std::exp(a.at(kLse, t, h)), y = std::exp(b.at(kLse, t, h));
        if (x + y == Number()) continue;
        out.at(kLse, t, h) = std::log(x + y);
        for (std::uint32_t i = 0; i < out.width(kMean); ++i)
          out.at(kMean, t, h, i) = (x * a.at(kMean, t, h, i) + y * b.at(kMean, t, h, i)) / (x + y);
      }
    return out;
  }
  if (!program_[v].is_sum) return b;  // made by one statement
  for (std::size_t p = 0; p < out.parts(); ++p)
    for (std::size_t i = 0; i < out.part(p).size(); ++i)
      out.part(p)[i] = a.part(p)[i] + b.part(p)[i];
  return out;
}

std::vector<Dense> Evaluator::terms(const Statement& s, std::vector<Dense>& values,
                                    std::int64_t first, std::int64_t end) const {
  std::vector<Dense*> in;
  for (std::size_t i = 0; i < operation(s.op).inputs; ++i) in.push_back(&values[s.inputs[i].value]);
  std::vector<Dense> out;
  for (std::size_t i = 0; i < outputs_of(s.op); ++i)
    out.emplace_back(program_, s.outputs[i], tokens_);
  switch (s.op) {
    case TaskKind::Attend:
      attend(in, out[0], first, end);
      break;
    case TaskKind::AttendBackward:
      attend_backward(in, out[0], out[1], first, end);
      break;
    case TaskKind::Prepare:
      prepare(in, out[0]);
      break;
    case TaskKind::Round:  // numbers here are exact; the log-sum-exp, last of the parts, is left
                           // out
      for (std::size_t p = 0; p < out[0].parts(); ++p) out[0].part(p) = in[0]->part(p);
      break;
    default:
      throw std::logic_error("no statement has the operation " + std::string(to_text(s.op)));
  }
  return out;
}

Number Evaluator::score(Dense& q, Dense& kv, std::int64_t query, std::int64_t key,
                        std::uint32_t head) const {
  Number out;
  for (std::uint32_t i = 0; i < q.width(0); ++i)
    out += q.at(0, query, head, i) * kv.at(kKey, key, key_head(q, kv, head), i);
  return out / std::sqrt(static_cast<double>(q.width(0)));
}

void Evaluator::attend(std::vector<Dense*> in, Dense& out, std::int64_t first,
                       std::int64_t end) const {
  Dense &q = *in[0], &kv = *in[1];
  for (std::int64_t t = 0; t < tokens_; ++t)
    for (std::uint32_t h = 0; h < q.columns(); ++h) {
      Number total;
      for (std::int64_t k = first; k < end; ++k) {
        if (!mask_.visible(t, k)) continue;
        const Number weight = std::exp(score(q, kv, t, k, h));
        total += weight;
        for (std::uint32_t i = 0; i < q.width(0); ++i)
          out.at(kMean, t, h, i) += weight * kv.at(kValue, k, key_head(q, kv, h), i);
      }
      if (total == Number()) continue;
      out.at(kLse, t, h) = std::log(total);
      for (std::uint32_t i = 0; i < q.width(0); ++i) out.at(kMean, t, h, i) /= total;
    }
}

void Evaluator::prepare(std::vector<Dense*> in, Dense& out) const {
  Dense &result = *in[0], &gradient = *in[1];
  out.part(kPreparedLse) = result.part(kLse);
  out.part(kOutGradient) = gradient.part(0);
  for (std::int64_t t = 0; t < tokens_; ++t)
    for (std::uint32_t h = 0; h < out.columns(); ++h)
      for (std::uint32_t i = 0; i < gradient.width(0); ++i)
        out.at(kDelta, t, h) += result.at(kMean, t, h, i) * gradient.at(0, t, h, i);
}

void Evaluator::attend_backward(std::vector<Dense*> in, Dense& dq, Dense& dkv, std::int64_t first,
                                std::int64_t end) const {
  Dense &q = *in[0], &prepared = *in[1], &kv = *in[2];
  const double scale = 1 / std::sqrt(static_cast<double>(q.width(0)));
  for (std::int64_t t = 0; t < tokens_; ++t)
    for (std::uint32_t h = 0; h < q.columns(); ++h)
      for (std::int64_t k = first; k < end; ++k) {
        if (!mask_.visible(t, k)) continue;
        const std::uint32_t kh = key_head(q, kv, h);
        const Number p = std::exp(score(q, kv, t, k, h) - prepared.at(kPreparedLse, t, h));
        Number dp;
        for (std::uint32_t i = 0; i < q.width(0); ++i)
          dp += prepared.at(kOutGradient, t, h, i) * kv.at(kValue, k, kh, i);
        const Number ds = p * (dp - prepared.at(kDelta, t, h)) * scale;
        for (std::uint32_t i = 0; i < q.width(0); ++i) {
          dq.at(0, t, h, i) += ds * kv.at(kKey, k, kh, i);
          dkv.at(kKey, k, kh, i) += ds * q.at(0, t, h, i);
          dkv.at(kValue, k, kh, i) += p * prepared.at(kOutGradient, t, h, i);
        }
      }
}

}  // namespace ringsched
