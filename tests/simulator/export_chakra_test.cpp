// Chakra traces, decoded by a protobuf reader of a few lines. Field numbers: mlcommons/chakra,
// schema/protobuf/et_def.proto.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <variant>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/export.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::set<std::uint64_t>;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (done() || shift > 63) throw std::runtime_error("a number is cut off");
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view text() {
    const std::uint64_t length = varint();
    if (length > bytes_.size()) throw std::runtime_error("a text is cut off");
    const std::string_view out = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return out;
  }

 private:
  std::string_view bytes_;
};

struct Fields {  // of one message, in order, by number
  std::multimap<std::uint64_t, std::uint64_t> numbers;
  std::multimap<std::uint64_t, std::string_view> texts;

  explicit Fields(std::string_view bytes) {
    for (Reader r(bytes); !r.done();) {
      const std::uint64_t key = r.varint();
      if (key % 8 == 0) {
        numbers.emplace(key / 8, r.varint());
      } else if (key % 8 == 2) {
        texts.emplace(key / 8, r.text());
      } else {
        throw std::runtime_error("no such wire type");
      }
    }
  }
  std::uint64_t number(std::uint64_t field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
  std::string text(std::uint64_t field) const {
    const auto found = texts.find(field);
    return found == texts.end() ? "" : std::string(found->second);
  }
};

struct Node {
  std::uint64_t id, type, micros;
  std::string name;
  Ids control, data;
  std::map<std::string, std::uint64_t> attributes;
};

Ids packed(std::string_view bytes) {
  Ids all;
  for (Reader r(bytes); !r.done();) all.insert(r.varint());
  return all;
}

std::vector<Node> decode(const std::string& trace) {
  Reader stream(trace);
  const std::string_view metadata = stream.text();
  EXPECT_EQ(Fields(metadata).text(1), "0.0.4");
  std::vector<Node> nodes;
  while (!stream.done()) {
    const Fields f(stream.text());
    Node n{f.number(1), f.number(3), f.number(7), f.text(2), {}, {}, {}};
    n.control = packed(f.text(4));
    n.data = packed(f.text(5));
    for (auto [at, end] = f.texts.equal_range(10); at != end; ++at) {
      const Fields a(at->second);
      EXPECT_EQ(a.numbers.size(), 1u);
      n.attributes[a.text(1)] = a.numbers.begin()->second;
    }
    nodes.push_back(n);
  }
  return nodes;
}

// Slow enough for tasks of milliseconds: whole microseconds lose little.
Plan long_plan(const Schedule& s, std::uint32_t workers) {
  return limit_communication(build_plan(small_problem(workers, 400 * workers, Pass::Both), s), {});
}

class ChakraOfSchedule : public testing::TestWithParam<Case> {};

TEST_P(ChakraOfSchedule, HoldsEveryTaskOnceWithWhatItNeeds) {
  const auto [schedule, workers] = GetParam();
  const Plan plan = long_plan(*schedule, workers);
  const Workload w = price(plan, test_machine(Fabric::Switch, workers));
  const std::vector<std::string> traces = chakra(w);
  ASSERT_EQ(traces.size(), workers);
  Ids seen;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    Ids before;  // of this rank: nothing may be needed that comes later
    for (const Node& n : decode(traces[rank])) {
      ASSERT_TRUE(seen.insert(n.id).second);
      ASSERT_LT(n.id, plan.tasks.size());
      const Task& t = plan.tasks[n.id];
      ASSERT_EQ(t.worker_index, rank);
      EXPECT_EQ(n.name, std::string(to_text(t.kind)) + " step " + std::to_string(t.step));
      Ids needs;
      for (const TensorId input : t.inputs)
        if (input.valid() && plan.producer(input).valid()) needs.insert(plan.producer(input).value);
      for (const ControlEdge& e : plan.controls)
        if (e.after.value == n.id) needs.insert(e.before.value);
      EXPECT_EQ(n.data, needs);
      for (const std::uint64_t c : n.control) {
        EXPECT_EQ(plan.tasks[c].lane, t.lane);
        EXPECT_TRUE(before.contains(c));
      }
      for (const std::uint64_t d : n.data) EXPECT_TRUE(before.contains(d));
      before.insert(n.id);

      EXPECT_EQ(n.attributes.at("is_cpu_op"), 0u);
      if (is_transfer(t.kind)) {
        const bool sends = t.kind == TaskKind::Send;
        EXPECT_EQ(n.type, sends ? 5u : 6u);
        const std::uint16_t other = plan.tasks[t.peer.value].worker_index;
        EXPECT_EQ(n.attributes.at("comm_src"), sends ? rank : other);
        EXPECT_EQ(n.attributes.at("comm_dst"), sends ? other : rank);
        EXPECT_EQ(n.attributes.at("comm_tag"), sends ? n.id : t.peer.value);
        EXPECT_EQ(n.attributes.at("comm_size"),
                  static_cast<std::uint64_t>(plan.works[t.work.value].bytes.value));
        continue;
      }
      EXPECT_EQ(n.type, 4u);
      const std::int64_t ps =
          w.compute[static_cast<std::size_t>(t.kind) * plan.works.size() + t.work.value];
      EXPECT_NEAR(static_cast<double>(n.micros), static_cast<double>(ps) * 1e-6, 0.5 + 1e-9);
      const double products = t.kind == TaskKind::Attend           ? 2
                              : t.kind == TaskKind::AttendBackward ? 5
                                                                   : 0;
      EXPECT_EQ(
          static_cast<double>(n.attributes.at("num_ops")),
          products * 2 * 8 * 4 *
              (is_attend(t.kind) ? static_cast<double>(plan.works[t.work.value].pairs.value) : 0));
    }
  }
  EXPECT_EQ(seen.size(), plan.tasks.size());
}

INSTANTIATE_TEST_SUITE_P(Export, ChakraOfSchedule, testing::ValuesIn(all_schedules(6)),
                         [](const auto& i) { return i.param.name(); });

TEST(Chakra, IsRefusedWhereWholeMicrosecondsLoseMuch) {
  const Plan plan = build_plan(small_problem(4, 40), find_schedule("ring"));
  Machine m = test_machine(Fabric::Switch, 4);
  try {
    chakra(price(plan, m));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("whole microseconds only, which would lose"));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  }
  m.launch_us = 1000;
  EXPECT_NO_THROW(chakra(price(plan, m)));
}

}  // namespace
}  // namespace ringsched
