// Writes plan files with exchanges for tests of the program.
//
//   write_exchange_plans FOLDER random SEED COUNT                 random-0.json, random-1.json, ...
//   write_exchange_plans FOLDER ulysses WORKERS TOKENS HEADS      ulysses.json
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ringsched/scheduler/plan_file.hpp"
#include "support/exchange_cases.hpp"
#include "support/exchange_plans.hpp"

int main(int count, char** arguments) {
  using namespace ringsched;
  if (count < 5) return 2;
  const std::string folder = arguments[1], what = arguments[2];
  const auto number = [&](int i) { return std::strtol(arguments[i], nullptr, 10); };
  if (what == "random") {
    std::mt19937_64 random(static_cast<std::uint64_t>(number(3)));
    for (long i = 0; i < number(4); ++i)
      write_plan_file(random_exchange_plan(random), fmt::format("{}/random-{}.json", folder, i));
  } else if (what == "ulysses" && count == 6) {
    Problem p;
    p.workers = static_cast<std::uint32_t>(number(3));
    p.tokens = {number(4)};
    p.heads = p.kv_heads = static_cast<std::uint32_t>(number(5));
    p.head_dim = 64;
    p.dtype = Dtype::Fp32;
    p.mask = Mask::full();
    write_plan_file(ulysses_by_hand(p), folder + "/ulysses.json");
  } else {
    return 2;
  }
  return 0;
}
