// Replaces exchanges by messages: a pass from one plan to another, before communication is limited
// (overlap.hpp). A repack on each worker then cuts what it sends, if necessary, and joins what it
// received.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/exchange_form.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

enum class Lowering : std::uint8_t {
  Native,  // exchanges stay what they are: a library's own collectives
  Direct,  // each share goes straight from the member that has it to the one that wants it
  Ring,    // all-gather, reduce-scatter and all-reduce by hops from member to member; others direct
  Tree,    // broadcast, reduce and all-reduce along a binomial tree; others direct
};

// Exchanges of one form, and what replaced them.
struct LoweredForm {
  ExchangeForm form = ExchangeForm::Other;
  Lowering as = Lowering::Direct;
  std::uint32_t count = 0;
  friend bool operator==(const LoweredForm&, const LoweredForm&) = default;
};

struct Lowered {
  Plan plan;
  std::vector<LoweredForm> forms;  // sorted by form; empty: the plan had no exchange
};

// For a plan that verifies. Throws Error if the new plan would have more than kMostTasks.
Lowered lower_exchanges(const Plan&, Lowering);

std::string_view to_text(Lowering);
Lowering parse_lowering(std::string_view text);

}  // namespace ringsched
