#include "asked.hpp"

#include <fmt/format.h>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched::python {

std::string text_of(const char* flag, nb::handle value) {
  if (PyBool_Check(value.ptr()))
    fail("{} is {}; use a number or text", flag, nb::str(value).c_str());
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::string all;
    for (const nb::handle one : value) all += (all.empty() ? "" : ",") + text_of(flag, one);
    return all;
  }
  return nb::str(value).c_str();
}

void Asked::add(const char* flag, nb::handle value) {
  if (value.is_none()) return;
  const std::string text = text_of(flag, value);
  if (text.empty()) fail("{} needs a value", flag);
  arguments_.push_back(fmt::format("{}={}", flag, text));
}

void Asked::parse() {
  try {
    app_.parse(std::vector<std::string>(arguments_.rbegin(), arguments_.rend()));
  } catch (const CLI::ParseError& wrong) {
    fail("{}", printable(wrong.what(), 200));
  }
}

Communication communication_of(const nb::object& overlap, const nb::object& buffers,
                               const nb::object& exchanges) {
  ProblemFlags flags;
  Asked asked;
  flags.add_to(asked.app());
  asked.add("--overlap", overlap);
  asked.add("--buffers", buffers);
  asked.add("--exchanges", exchanges);
  asked.parse();
  return {flags.lowering(), flags.limits()};
}

void add_machine_asked(Asked& asked, const MachineAsked& m) {
  asked.add("--kernels", m.kernels);
  asked.add("--software", m.software);
  asked.add("--nccl-ctas", m.nccl_ctas);
  asked.add("--diagonal", m.diagonal);
  asked.add("--noise", m.noise);
  asked.add("--stragglers", m.stragglers);
  asked.add("--seed", m.seed);
  asked.add("--runs", m.runs);
  if (m.slow_workers.is_none()) return;
  if (!nb::isinstance<nb::dict>(m.slow_workers))
    fail("slow_workers: use a dict, e.g. {{3: 2}}: worker 3 takes twice as long");
  for (const auto [worker, factor] : nb::cast<nb::dict>(m.slow_workers))
    asked.add(
        "--slow-worker",
        nb::str(fmt::format("{}:{}", nb::str(worker).c_str(), nb::str(factor).c_str()).c_str()));
}

MachineFlags machine_flags(const MachineAsked& m) {
  MachineFlags flags;
  Asked asked;
  flags.add_figures_to(asked.app());
  flags.add_conditions_to(asked.app());
  add_machine_asked(asked, m);
  asked.parse();
  return flags;
}

}  // namespace ringsched::python
