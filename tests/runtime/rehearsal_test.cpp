// What the executor does before the first run, with devices that have something to do then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/execution.hpp"
#include "runtime/plans_to_run.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// Notes what it is told. Ends what it has begun once it is asked for the second time, or never.
class Noting final : public Device {
 public:
  Noting(std::vector<std::string>& notes, bool ends) : notes_(notes), ends_(ends) {}
  std::byte* allocate(Bytes bytes) override {
    block_.resize(static_cast<std::size_t>(bytes.value));
    return block_.data();
  }
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  void wait_for(Lane, TaskId) override {}
  void begin(Lane, std::span<const TaskId>) override {}
  void end(Lane, std::span<const TaskId>) override {}
  void compute(TaskId, const Operands&) override {}
  void call(Lane, std::function<void()>) override {}
  bool rehearse() override {
    notes_.push_back("rehearse");
    return true;
  }
  void rehearsed() override { notes_.push_back("rehearsed"); }
  std::chrono::nanoseconds lead() const override { return 1min; }
  void start(Clock::time_point) override { notes_.push_back("start"); }
  bool finished() const override { return ends_ && ++asked_ % 2 == 0; }
  void join() override { notes_.push_back("join"); }
  TaskTime time_of(TaskId) const override { return {}; }
  LaneState state(Lane lane) const override {
    return lane == Lane::Compute ? LaneState{{0}, 0} : LaneState{};
  }

 private:
  std::vector<std::string>& notes_;
  const bool ends_;
  mutable int asked_ = 0;
  std::vector<std::byte> block_;
};

struct Stage {
  explicit Stage(bool ends)
      : execution(
            plan, {{0}},
            [&, ends](WorkerId, std::span<const TaskId>) {
              return std::make_unique<Noting>(notes, ends);
            },
            *transport, control, fill_from(plan, inputs)) {}

  const Plan plan = plan_of(problem(1, 64, 2, 1, 8, Dtype::Fp32, Pass::Forward), "ring");
  Control control;
  const Inputs inputs{plan.problem, 7};
  const std::unique_ptr<Transport> transport = make_local_transport(plan, control);
  std::vector<std::string> notes;
  Execution execution;
};

void hung(const std::string& why) { FAIL() << "hung: " << why; }

TEST(Rehearsal, IsOverBeforeTheFirstRunBegins) {
  Stage s(true);
  s.execution.rehearse(10s, hung);
  EXPECT_THAT(s.notes, ElementsAre("rehearse", "join", "rehearsed"));
  EXPECT_EQ(s.execution.lead(), 1min);
  s.execution.run(Clock::now(), 10s, hung);
  EXPECT_THAT(s.notes, ElementsAre("rehearse", "join", "rehearsed", "start", "join"));
}

TEST(Rehearsal, IsMadeWithTheFirstRunIfNobodyAskedForIt) {
  Stage s(true);
  for (int i = 0; i < 2; ++i) s.execution.run(Clock::now(), 10s, hung);
  EXPECT_THAT(s.notes,
              ElementsAre("rehearse", "join", "rehearsed", "start", "join", "start", "join"));
}

// What is said of a rehearsal that does not give up when it is told to.
std::string said_of(Stage& s, std::chrono::nanoseconds deadline) {
  std::string why;
  const auto give_up = [&](const std::string& w) {
    why = w;
    throw RunFailed(w);
  };
  EXPECT_THROW(s.execution.rehearse(deadline, give_up), RunFailed);
  return why;
}

TEST(Rehearsal, ThatDoesNotEndIsEndedAndWhatItWaitedForIsNamed) {
  Stage late(false), told(false);
  told.control.interrupt(15);
  EXPECT_THAT(said_of(late, 50ms), HasSubstr("not finished after 50.0 ms; pending: task 0"));
  EXPECT_THAT(said_of(told, 10s),
              HasSubstr("stopped by signal 15; pending: task 0 (worker 0, step 0, attend"));
}

}  // namespace
}  // namespace ringsched
