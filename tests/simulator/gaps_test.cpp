// What predictions on a machine have to guess.
#include "ringsched/simulator/gaps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ringsched {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

testing::Matcher<Gap> about(const std::string& what, const std::string& says) {
  return AllOf(Field(&Gap::about, what), Field(&Gap::text, HasSubstr(says)));
}

TEST(Gaps, TellOfEachProfileThatComesAlongButTheIdealOne) {
  for (const MachineProfile& p : machine_profiles())
    EXPECT_EQ(gaps(find_machine(std::string(p.name))).empty(), p.name == "ideal") << p.name;
}

// A profile based on another's keeps its tables, which may be those of a faster GPU.
TEST(Gaps, TellOfTablesThatTheDeviceCannotReach) {
  for (const MachineProfile& p : machine_profiles())
    for (const Gap& g : gaps(find_machine(std::string(p.name))))
      EXPECT_THAT(g.text, Not(HasSubstr("another GPU"))) << p.name;
  Machine h20 = find_machine("hgx-h100");
  h20.sms = 78;
  h20.flops_per_clock = 1024;
  EXPECT_THAT(gaps(h20), Contains(about("kernels", "are more than the 146 that sms")));
  EXPECT_THAT(gaps(h20), Contains(about("kernels", "backward, causal mask, head dimension 128")));
}

TEST(Gaps, AreWhatTheProfileDoesNotSay) {
  Machine m = find_machine("dgx-a100");
  EXPECT_THAT(
      gaps(m),
      Contains(about("kernels", "forward: no table for fp32, so problems in fp32 are refused")));
  EXPECT_THAT(gaps(m), Contains(about("kernels",
                                      "only head dimensions 64, 128 and 256 are given; "
                                      "others are computed from the nearest")));
  EXPECT_THAT(gaps(m),
              Contains(about(
                  "kernels",
                  "head dimension 256: no full-mask table; computed from the causal-mask table")));
  EXPECT_THAT(gaps(m), Contains(about("host", "no [host]")));
  EXPECT_THAT(gaps(m), Not(Contains(about("spread", "[fabric]")))) << "it gives one";
  EXPECT_THAT(gaps(m), Contains(about("spread", "[[kernel]] 6%")));
  EXPECT_THAT(gaps(m), Not(Contains(about("memory", ""))));
  EXPECT_THAT(gaps(m), Not(Contains(about("exchanges", ""))));

  m.flops_per_clock = 0;
  EXPECT_THAT(gaps(m), Contains(about("kernels", "others use the rates of the nearest one")));
  m.memory_gb = 0;
  EXPECT_THAT(gaps(m), Contains(about("memory", "no memory.gb")));
  m.collectives.clear();
  EXPECT_THAT(gaps(m), Contains(about("exchanges",
                                      "all-gather, all-to-all, reduce-scatter and "
                                      "all-reduce")));
  m.software = {};
  EXPECT_THAT(gaps(m), Contains(about("software", "no [software]")));
  m.comm_source.clear();
  EXPECT_THAT(gaps(m), Contains(about("transfers", "take no SMs")));
  EXPECT_THAT(gaps(m), Contains(about("links", "from NCCL's channels, of 13.9 GB/s each")));
  m.fabric.channel_gb_per_s = 0;
  EXPECT_THAT(gaps(m), Contains(about("links", "[fabric]: no measured message sizes")));
  m.fabric.link.messages = {{1 << 20, 50}, {1 << 30, 200}};
  EXPECT_THAT(gaps(m), Contains(about("links", "measured for messages of 1.0 MiB to 1.0 GiB")));
  std::erase_if(m.kernels, [](const KernelTable& k) { return k.backward; });
  EXPECT_THAT(gaps(m), Contains(about("kernels", "no backward table")));
  m.nodes = 2;
  EXPECT_THAT(gaps(m), Contains(about("links", "[network]: no measured message sizes")));
}

}  // namespace
}  // namespace ringsched
