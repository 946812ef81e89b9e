// Which cells go from which member to which in an exchange or a repack, for the simulator, the
// runtimes and the pictures. verify() works this out by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "ringsched/scheduler/exchange_form.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Cells that one member gets of another's tensor, or of its own. Members count from 0.
struct Share {
  std::uint32_t from = 0, to = 0;
  Region rows;
  ColumnRange columns;
  friend bool operator==(const Share&, const Share&) = default;
};

// By `to`, and of those by `from`. Of an exchange that adds up, `to` adds its shares in this order.
std::vector<Share> shares_of(const Plan&, const Exchange&);

// Does it take parts of a sum? Otherwise it copies.
bool adds_up(const Plan&, const Exchange&);

// Does it add anything up? A part that only one member has is only copied, for instance if the mask
// leaves only one worker something to attend.
bool combines(const Plan&, const Exchange&);

// Its name for people and for machine profiles.
ExchangeForm form_of(const Plan&, const Exchange&);

// A share is contiguous in each matrix, at the giver or at the getter, if it has all columns of the
// tensor there. If not, it is gathered into staging memory before the send, or spread from there
// after it arrives. What is added up also needs staging memory.
bool is_run_at_giver(const Plan&, const Exchange&, const Share&);
bool is_run_at_getter(const Plan&, const Exchange&, const Share&);
// By member: the bytes of that memory, for everything it gives to others and gets from others; with
// `own`, also for what it keeps itself, if other shares need it there.
struct Staging {
  Bytes given, got;
};
std::vector<Staging> staging_of(const Plan&, const Exchange&, const std::vector<Share>&,
                                bool own = false);

}  // namespace ringsched
