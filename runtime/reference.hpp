// Attention in double precision, by definition and slowly.
#pragma once

#include <vector>

#include "ringsched/runtime/check.hpp"

namespace ringsched {

// A row of a result, and how far each number of it may be off.
struct ReferenceRow {
  std::vector<double> value, bound;
  double lse = 0, lse_bound = 0;  // forward only
};

// The bound of a number that was rounded to a dtype afterwards; `bound` is its bound before that.
double rounded_bound(Dtype, double value, double bound);

class Reference {
 public:
  Reference(const Problem&, const Inputs&);

  ReferenceRow output(std::int64_t token, std::uint32_t head);
  ReferenceRow query_gradient(std::int64_t token, std::uint32_t head);
  // Gradients of keys and values, of a key-value head. Computes the forward result if it is not
  // given.
  void key_value_gradients(std::int64_t token, std::uint32_t kv_head, const ForwardRows& given,
                           ReferenceRow& key, ReferenceRow& value);

 private:
  struct Row {  // of one query and head: its softmax
    std::vector<std::int64_t> keys;
    std::vector<double> probability;
    double lse = 0, most = 0;  // the sum of |q k| at the most
    std::vector<double> output;
    double delta = 0, delta_most = 0;
  };
  // The numbers of a head, [token][place]; made at first use.
  const std::vector<float>& numbers(Matrix, std::uint32_t head);
  const float* row(Matrix m, std::uint32_t head, std::int64_t token) {
    return numbers(m, head).data() + token * dim_;
  }
  Row softmax(std::int64_t token, std::uint32_t head, bool with_delta);
  void compute_forward(std::uint32_t head);
  double rounding(double most) const;

  const Problem& problem_;
  const Inputs& inputs_;
  const std::int64_t dim_;
  const double scale_;
  std::vector<std::vector<float>> made_[4];
  ForwardRows forward_;
  std::vector<bool> has_forward_;  // by head
};

}  // namespace ringsched
