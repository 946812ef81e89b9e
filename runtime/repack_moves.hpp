// What a repack does in host memory: it copies the cells that its members get, or adds them up.
#pragma once

#include <functional>
#include <vector>

#include "rectangle.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class RepackMoves {
 public:
  // Keeps a reference to the plan.
  RepackMoves(const Plan&, const Exchange& repack,
              const std::function<std::byte*(TensorId)>& place);
  void run() const;

 private:
  struct Move {
    Rectangle from, to;
  };
  const Plan& plan_;
  ValueId value_;
  std::vector<Rectangle> sums_;  // what is added to, if it adds up
  std::vector<Move> moves_;
};

}  // namespace ringsched
