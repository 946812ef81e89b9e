// Whether the members of an exchange, or a repack, agree, and whether what they get is there.
#pragma once

#include "internal.hpp"

namespace ringsched {

class ExchangeCheck {
 public:
  ExchangeCheck(const Plan& plan, const Exchange& e, Findings& findings)
      : plan_(plan), exchange_(e), findings_(findings) {}
  void run();

 private:
  struct Held {  // of complete tensors: a rectangle of cells
    Region rows;
    ColumnRange columns;
    TaskId member;
  };
  // Rows that are held for all columns of a band.
  struct Band {
    ColumnRange columns;
    std::vector<Region> runs;  // in order; no two touch
  };

  bool has_each_worker_once();
  bool is_on_one_worker();
  bool gives_alike();
  bool is_held_once();
  void check_wanted();
  void check_completion();
  std::string_view kind() const { return to_text(plan_.tasks[exchange_.first.value].kind); }

  const Plan& plan_;
  const Exchange exchange_;
  Findings& findings_;
  std::vector<Held> held_;
  std::vector<Band> bands_;
};

}  // namespace ringsched
