// Whatever reads as a plan must be written as a text that reads as the same plan, and verify must
// reach a verdict on it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringsched;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  Plan plan;
  try {
    plan = read_plan(json, "input");
  } catch (const Error& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    return 0;
  }
  const std::string text = write_plan(plan);  // from here on an Error is a crash
  if (write_plan(read_plan(text, "its own text")) != text) {
    std::fputs(text.c_str(), stderr);
    std::abort();
  }
  if (const Verification v = verify(plan); v.holds()) limit_communication(std::move(plan), {});
  return 0;
}
