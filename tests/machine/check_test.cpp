// All errors of a profile at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

testing::Matcher<std::string> at(int line, const std::string& says) {
  return AllOf(StartsWith("mine.toml:" + std::to_string(line) + ": "), HasSubstr(says));
}

TEST(CheckedProfile, FindsNoErrorInThoseThatComeAlong) {
  for (const MachineProfile& p : machine_profiles()) {
    const CheckedProfile c = check_machine(p.toml, p.name);
    EXPECT_TRUE(c.errors.empty()) << c.errors.front();
    ASSERT_TRUE(c.machine) << p.name;
    EXPECT_EQ(*c.machine, find_machine(std::string(p.name)));
  }
}

TEST(CheckedProfile, ListsEveryErrorWithItsLineAndWhatWasGiven) {
  const CheckedProfile c = check_machine(R"(name = 7
[devices]
per_node = 2.5
sms = "many"
[memory]
gb_per_s = -1
gb = true
gb_per_sec = 3
[fabric]
kind = "torus"
gb_per_s = 100
messages = [[1000, 10], [900, 10], [5000]]
source = "s"
[[kernel]]
pass = "fwd"
mask = "full"
dtypes = ["bf16", "fp8"]
head_dim = 128
tokens = [100, 200, 300]
tflops = [10, nan]
[[kernel]]
pass = "forward"
mask = "full"
dtypes = ["bf16"]
head_dim = 64
tokens = [200, 100]
tflops = [1, 2]
heads = [1, 2, 3]
source = "s"
)",
                                         "mine.toml");
  EXPECT_FALSE(c.machine);
  EXPECT_THAT(
      c.errors,
      ElementsAre(at(1, "name must be a string, not 7"),
                  at(3, "devices.per_node must be a whole number from 1 to 65535, not 2.5"),
                  at(4, "devices.sms must be a whole number from 0 to 1048576, not \"many\""),
                  at(2, "[devices] needs \"source\""), at(7, "memory.gb must be a number"),
                  at(6, "memory.gb_per_s must be a number from 1e-06 to 1e+06, not -1"),
                  at(8, "unknown key 'memory.gb_per_sec'"), at(5, "[memory] needs \"source\""),
                  at(10, "fabric.kind must be one of: memory, mesh, pcie, switch; it is \"torus\""),
                  at(12, "[900, 10] follows [1000, 10]"),
                  at(12, "fabric.messages must be a list of [bytes, GB/s] pairs"),
                  at(15, "kernel.pass must be one of: backward, forward; it is \"fwd\""),
                  at(17, "kernel.dtypes must be one of: bf16, fp16, fp32; it is \"fp8\""),
                  at(20, "kernel.tflops must be a number from 1e-09 to 1e+06, not nan"),
                  at(20, "it has 2 for 3"), at(14, "[kernel] needs \"source\""),
                  at(28, "it has 3 for 2"), at(26, "100 follows 200"),
                  at(1, "summary is missing")));
}

// What is wrong is not said to be missing, too.
TEST(CheckedProfile, SaysEachThingOnce) {
  const CheckedProfile c = check_machine(
      "name = \"a\"\nsummary = \"b\"\nbase = \"dgx-a100\"\n[memory]\ngb_per_s = \"x\"\nsource = "
      "\"s\"\n[fabric]\nkind = 3\nsource = \"s\"\n",
      "mine.toml");
  EXPECT_THAT(c.errors, ElementsAre(at(5, "memory.gb_per_s"), at(8, "fabric.kind")));
  EXPECT_EQ(check_machine("name = \"a\"\nsummary = \"b\"\nbase = \"dgx-a10\"\n", "mine.toml")
                .errors.size(),
            1u)
      << "all else may be in the base";
}

TEST(CheckedProfile, ListsWhatIsMissingOrContradictsItself) {
  const CheckedProfile c = check_machine(
      "name = \"a\"\nsummary = \"b\"\n[devices]\nper_node = 2\nnodes = 2\nsource = \"s\"\n",
      "mine.toml");
  EXPECT_THAT(c.errors,
              ElementsAre(at(1, "kernel is missing"), at(1, "memory.gb_per_s is missing"),
                          at(1, "fabric.kind is missing"), at(1, "fabric.gb_per_s is missing"),
                          at(1, "network.nics is missing"), at(1, "network.gb_per_s is missing")));
}

TEST(CheckedProfile, RefusesTwoKernelTablesForTheSame) {
  const std::string kernel =
      "[[kernel]]\npass = \"forward\"\nmask = \"full\"\ndtypes = [\"bf16\"]\nhead_dim = 64\n"
      "tokens = [1]\ntflops = [1]\nsource = \"s\"\n";
  const CheckedProfile c = check_machine(
      "name = \"a\"\nsummary = \"b\"\nbase = \"dgx-a100\"\n" + kernel + kernel, "mine.toml");
  EXPECT_THAT(c.errors,
              ElementsAre(at(12, "kernel: a second table for forward full, bf16, head_dim 64")));
}

TEST(CheckedProfile, StopsAtWhatIsNoToml) {
  const CheckedProfile c = check_machine("name = \"a\"\n[memory\n", "mine.toml");
  EXPECT_THAT(c.errors, ElementsAre(at(2, "")));
}

TEST(CheckedProfile, OfALibraryIsKnownByItsTables) {
  for (const MachineProfile& p : software_profiles()) {
    EXPECT_TRUE(is_software(p.toml, p.name)) << p.name;
    const CheckedLibrary c = check_software(p.toml, p.name);
    EXPECT_TRUE(c.errors.empty()) << c.errors.front();
    ASSERT_TRUE(c.software) << p.name;
    EXPECT_EQ(*c.software, find_software(std::string(p.name)));
  }
  for (const MachineProfile& p : machine_profiles()) EXPECT_FALSE(is_software(p.toml, p.name));
  const std::string tables = "[host]\npost_us = 1\nsource = \"s\"\n";
  EXPECT_TRUE(is_software(tables, "mine.toml"));
  EXPECT_TRUE(is_software("base = \"lightseq\"\n" + tables, "mine.toml"));
  EXPECT_FALSE(is_software("base = \"dgx-a100\"\n" + tables, "mine.toml"));
  EXPECT_FALSE(is_software("[host", "mine.toml"));
}

TEST(CheckedProfile, OfALibrarySaysSomething) {
  const CheckedLibrary c = check_software("name = \"mine\"\nsummary = \"s\"\n", "mine.toml");
  EXPECT_THAT(c.errors, ElementsAre(HasSubstr("mine.toml: has neither [software] nor [host]")));
  EXPECT_THROW(read_software("", "mine.toml"), Error);
}

// As a profile requires it, whatever a calibration multiplies.
TEST(ScaledLink, DeliversLongerMessagesLater) {
  LinkFigures link{100, 2, {{1024, 0.2}, {131072, 9}, {1048576, 60}, {1e9, 100}}};
  for (const double latency : {0.1, 1.0, 10.0})
    for (const double bandwidth : {0.1, 1.0, 10.0}) {
      LinkFigures scaled = link;
      scale(scaled, bandwidth, latency);
      double before = 0;
      for (const MessageRate& m : scaled.messages) {
        EXPECT_GE(m.bytes / m.gb_per_s, before * (1 - 1e-12)) << latency << ' ' << bandwidth;
        EXPECT_LE(m.gb_per_s, scaled.gb_per_s);
        before = m.bytes / m.gb_per_s;
      }
    }
}

TEST(CheckedProfile, OfALibraryListsEveryError) {
  const auto errors = check_software(R"(name = "mine"
[software]
merge_bytes = "x"
[host]
post_us = -1
speed = 3
source = "s"
)",
                                     "mine.toml")
                          .errors;
  EXPECT_THAT(errors, testing::UnorderedElementsAre(at(3, "software.merge_bytes must be a number"),
                                                    at(2, "needs \"source\""),
                                                    at(5, "host.post_us must be a number"),
                                                    at(6, "unknown key 'host.speed'")));
  const auto host = [](const std::string& keys) {
    const auto found = check_software("[host]\n" + keys + "source = \"s\"\n", "mine.toml").errors;
    return found.empty() ? "" : found.front();
  };
  EXPECT_EQ(host("graph_us = 6\ngraph_node_us = 0.1\n"), "");
  EXPECT_THAT(host("graph_node_us = 1\n"), at(1, "host.graph_node_us needs host.graph_us"));
  EXPECT_THAT(host("synchronise_us = 1\n"), at(1, "needs host.synchronises"));
  EXPECT_THAT(host("graph_us = 6\nsynchronises = \"steps\"\n"), at(1, "in a CUDA graph"));
  EXPECT_THAT(host("synchronises = \"always\"\n"),
              at(2, "one of: exchanges, kernels, never, steps"));
}

}  // namespace
}  // namespace ringsched
