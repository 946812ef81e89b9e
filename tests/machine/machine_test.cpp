// Machine profiles: the built-in ones, what a derived one inherits, and the errors for invalid
// files.
#include "ringsched/machine/machine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <ostream>
#include <string>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Two devices behind a switch. Line numbers below count from its first line.
const std::string kGood = R"(name = "mine"
summary = "for tests"
[devices]
per_node = 2
source = "s"
[memory]
gb_per_s = 1000
source = "s"
[fabric]
kind = "switch"
gb_per_s = 100
latency_us = 3
source = "s"
[[kernel]]
pass = "forward"
mask = "full"
dtypes = ["bf16", "fp16"]
head_dim = 64
tokens = [100, 200]
tflops = [10, 20]
source = "s"
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("not in the profile: " + from);
  return text.replace(at, from.size(), to);
}

// Begins on line 22 of what follows kGood.
std::string collective(const std::string& kind, const std::string& more,
                       const std::string& busbw = "[[1, 1]]") {
  return "[[collective]]\n" + kind + "\n" + more + "\nbusbw = " + busbw + "\nsource = \"s\"\n";
}

std::string error_of_machine(const std::string& toml) {
  try {
    read_machine(toml, "mine.toml");
  } catch (const Error& e) {
    return e.what();
  }
  return "it was read";
}

TEST(MachineProfile, EachThatComesAlongIsReadUnderItsName) {
  ASSERT_GE(machine_profiles().size(), 8u);
  for (const MachineProfile& p : machine_profiles()) {
    const Machine m = find_machine(std::string(p.name));
    EXPECT_EQ(m.name, p.name);
    EXPECT_FALSE(m.summary.empty()) << p.name;
    EXPECT_EQ(m.summary.find('\n'), std::string::npos) << p.name;
    EXPECT_EQ(m.ideal, p.name == "ideal");
  }
}

// Looked for in the text, by other means than the reader's.
TEST(MachineProfile, EachTableOfThoseThatComeAlongSaysWhereItsFiguresAreFrom) {
  for (const MachineProfile& p : machine_profiles()) {
    std::istringstream lines{std::string(p.toml)};
    std::string table, line;
    bool sourced = true;
    const auto close = [&] { EXPECT_TRUE(sourced) << p.name << " " << table; };
    while (std::getline(lines, line)) {
      if (line.starts_with("[")) {
        close();
        table = line;
        sourced = false;
      }
      if (line.starts_with("source = \"") && line.size() > 18) sourced = true;
    }
    close();
  }
}

TEST(MachineProfile, HasTheFiguresThatTheFileGives) {
  const Machine m = read_machine(kGood, "mine.toml");
  EXPECT_EQ(m.name, "mine");
  EXPECT_EQ(m.devices(), 2u);
  EXPECT_EQ(m.memory_gb_per_s, 1000);
  EXPECT_EQ(m.memory_gb, 0) << "it does not say";
  EXPECT_EQ(find_machine("hgx-h200").memory_gb, 141);
  EXPECT_EQ(find_machine("hgx-h100x4-ib400").memory_gb, 80) << "as its base";
  EXPECT_EQ(m.fabric.kind, Fabric::Switch);
  EXPECT_EQ(m.fabric.link.gb_per_s, 100);
  EXPECT_EQ(m.fabric.link.latency_us, 3);
  ASSERT_EQ(m.kernels.size(), 1u);
  EXPECT_THAT(m.kernels[0].dtypes, ElementsAre(Dtype::Bf16, Dtype::Fp16));
  EXPECT_THAT(m.kernels[0].tokens, ElementsAre(100, 200));
  EXPECT_THAT(m.kernels[0].tflops, ElementsAre(10, 20));
  EXPECT_EQ(m.software.merge_bytes, 12);  // as the header says where nothing is given
}

TEST(MachineProfile, StartsFromItsBaseAndChangesWhatItSays) {
  const Machine base = find_machine("dgx-a100");
  const Machine m = read_machine(
      "name = \"half\"\nsummary = \"four of them\"\nbase = \"dgx-a100\"\n"
      "[devices]\nper_node = 4\nsource = \"s\"\n[fabric]\ngb_per_s = 500\nsource = \"t\"\n",
      "half.toml");
  EXPECT_EQ(m.name, "half");
  EXPECT_EQ(m.devices_per_node, 4u);
  EXPECT_EQ(m.fabric.link.gb_per_s, 500);
  EXPECT_EQ(m.fabric.link.latency_us, base.fabric.link.latency_us);
  EXPECT_EQ(m.fabric.kind, base.fabric.kind);
  EXPECT_EQ(m.memory_gb_per_s, base.memory_gb_per_s);
}

TEST(MachineProfile, IsFoundByPathToo) {
  const std::string path = testing::TempDir() + "ringsched_machine_test.toml";
  std::ofstream(path) << kGood;
  EXPECT_EQ(find_machine(path).name, "mine");
  std::remove(path.c_str());
  EXPECT_THROW(find_machine(path), Error);
  EXPECT_THROW(find_machine(testing::TempDir()), Error);  // a folder
}

TEST(MachineProfile, OfAnUnknownNameIsAnsweredByTheNearest) {
  for (const auto& [given, nearest] : {std::pair{"dgx_a100", "dgx-a100"},
                                       {"hgx-h10", "hgx-h100"},
                                       {"idea", "ideal"},
                                       {"Laptop", "laptop"}}) {
    try {
      find_machine(given);
      FAIL() << given;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(),
                  HasSubstr(fmt::format("unknown machine '{}'; did you mean {}?", given, nearest)));
    }
  }
}

struct BadProfile {
  const char* name;
  std::string toml;
  int line;
  std::string says;  // the key, and what is wrong with it
};

void PrintTo(const BadProfile& b, std::ostream* out) { *out << b.name; }

const BadProfile kBad[] = {
    {"unknown_key", with("gb_per_s = 1000", "gb_per_s = 1000\ngb_per_sec = 2"), 8,
     "unknown key 'memory.gb_per_sec'; did you mean memory.gb_per_s?"},
    {"unknown_table", with("[memory]", "[memori]"), 6, "'memori'; did you mean memory?"},
    {"text_for_a_number", with("= 1000", "= \"1000\""), 7, "memory.gb_per_s must be a number"},
    {"number_for_a_text", with("\"mine\"", "7"), 1, "name must be a string"},
    {"empty_text", with("\"mine\"", "\"\""), 1, "name must be a string"},
    {"two_lines", with("\"mine\"", "\"mi\\nne\""), 1, "name must be one line"},
    {"value_for_a_table", "memory = 3\n" + kGood.substr(0, kGood.find("[memory]")), 1,
     "memory must be a table"},
    {"table_for_a_list", with("[[kernel]]", "[kernel]"), 14, "kernel must be a list"},
    {"fraction_for_a_count", with("per_node = 2", "per_node = 2.5"), 4, "devices.per_node"},
    {"none_of_a_count", with("per_node = 2", "per_node = 0"), 4, "devices.per_node"},
    {"negative", with("= 1000", "= -1000"), 7, "memory.gb_per_s must be a number from 1e-06"},
    {"nan", with("= 1000", "= nan"), 7, "memory.gb_per_s must be a number"},
    {"nan_latency", with("latency_us = 3", "latency_us = -nan"), 12, "fabric.latency_us"},
    {"infinite", with("= 1000", "= inf"), 7, "not inf"},
    {"nan_in_a_list", with("[10, 20]", "[10, nan]"), 20, "kernel.tflops must be a number"},
    {"beyond_a_double", with("= 1000", "= 9223372036854775807"), 7, "memory.gb_per_s"},
    {"no_name", with("name = \"mine\"\n", ""), 1, "name is missing"},
    {"no_source", with("gb_per_s = 1000\nsource = \"s\"", "gb_per_s = 1000"), 6,
     "[memory] needs \"source\""},
    {"no_source_of_a_kernel", with("[10, 20]\nsource = \"s\"", "[10, 20]"), 14,
     "[kernel] needs \"source\""},
    {"no_memory", with("[memory]\ngb_per_s = 1000\nsource = \"s\"\n", ""), 1,
     "memory.gb_per_s is missing"},
    {"no_memory_figure", with("gb_per_s = 1000\n", ""), 6, "memory.gb_per_s is missing"},
    {"no_fabric_kind", with("kind = \"switch\"\n", ""), 9, "fabric.kind is missing"},
    {"no_fabric_rate", with("gb_per_s = 100\n", ""), 9, "fabric.gb_per_s is missing"},
    {"no_per_switch", with("\"switch\"", "\"pcie\""), 9, "fabric.per_switch is missing"},
    {"no_nics", with("per_node = 2", "per_node = 2\nnodes = 2"), 1, "network.nics is missing"},
    {"no_kernel", kGood.substr(0, kGood.find("[[")), 1, "kernel is missing"},
    {"no_tflops", with("tflops = [10, 20]\n", ""), 14, "kernel.tflops is missing"},
    {"no_head_dim", with("head_dim = 64\n", ""), 14, "kernel.head_dim is missing"},
    {"tokens_that_fall", with("[100, 200]", "[200, 100]"), 19,
     "kernel.tokens must be in increasing order"},
    {"dealt_blocks_without_blocks", with("[10, 20]", "[10, 20]\ndeals_blocks = \"always\""), 21,
     "kernel.deals_blocks needs block_overhead_keys, one block on each SM (blocks_per_sm = 1), and "
     "blocks in order (no longest_first)"},
    {"dealt_blocks_two_on_an_sm",
     with("[10, 20]",
          "[10, 20]\ndeals_blocks = \"unpacked\"\nblock_overhead_keys = 1\nblocks_per_sm = 2"),
     21,
     "kernel.deals_blocks needs block_overhead_keys, one block on each SM (blocks_per_sm = 1), and "
     "blocks in order (no longest_first)"},
    {"dealt_blocks_by_a_word_unknown", with("[10, 20]", "[10, 20]\ndeals_blocks = \"often\""), 21,
     "kernel.deals_blocks must be one of: always, never, unpacked; it is \"often\""},
    {"padded_dims_that_fall", with("[10, 20]", "[10, 20]\npads_head_dim_to = [64, 64]"), 21,
     "kernel.pads_head_dim_to must be in increasing order; 64 follows 64"},
    {"padded_dims_that_are_not_whole", with("[10, 20]", "[10, 20]\npads_head_dim_to = [64, 64.5]"),
     21, "kernel.pads_head_dim_to must have whole numbers, not 64.5"},
    {"padded_dims_without_its_own", with("[10, 20]", "[10, 20]\npads_head_dim_to = [32, 192]"), 21,
     "kernel.head_dim is 64, which pads_head_dim_to would fill up to 192"},
    {"tflops_too_few", with("[10, 20]", "[10]"), 20, "kernel.tflops must have one number"},
    {"heads_too_many", with("[10, 20]", "[10, 20]\nheads = [1, 2, 3]"), 21, "kernel.heads"},
    {"empty_list", with("[10, 20]", "[]"), 20, "kernel.tflops must be a list"},
    {"unknown_fabric", with("\"switch\"", "\"torus\""), 10,
     "fabric.kind must be one of: memory, mesh, pcie, switch"},
    {"unknown_dtype", with("\"fp16\"", "\"fp8\""), 17,
     "kernel.dtypes must be one of: bf16, fp16, fp32"},
    {"unknown_pass", with("\"forward\"", "\"fwd\""), 15, "kernel.pass must be one of"},
    {"unknown_library", with("[devices]", "library = \"fa9\"\n[devices]"), 3, "library: "},
    {"unknown_base", "name = \"a\"\nsummary = \"b\"\nbase = \"dgx-a10\"\n", 3,
     "base: unknown machine 'dgx-a10'; did you mean dgx-a100?"},
    {"base_of_its_own", "name = \"loop\"\nsummary = \"b\"\nbase = \"loop\"\n", 3,
     "base: unknown machine 'loop'"},
    {"too_many_devices", with("per_node = 2", "per_node = 300\nnodes = 300"), 3,
     "devices.nodes times devices.per_node is 90000; use at most 65535"},
    {"too_many_links",
     "name = \"a\"\nsummary = \"b\"\nbase = \"dgx-a100\"\n[devices]\nper_node = 5000\n"
     "source = \"s\"\n[fabric]\nkind = \"mesh\"\nsource = \"s\"\n",
     7, "fabric.kind: the number of links of a mesh is 25000000"},
    {"too_many_nics",
     with("per_node = 2", "per_node = 2\nnodes = 9") +
         "[network]\nnics = 9999\ngb_per_s = 1\nsource = \"s\"\n",
     23, "network.nics times devices.nodes"},
    {"more_cores_taken_than_there_are", kGood + "[communication]\ncores = 2\nsource = \"s\"\n", 22,
     "communication.cores is 2, more than devices.concurrency (1)"},
    {"slower_beside_none", with("per_node = 2", "per_node = 2\nslowdown = 1.1"), 3,
     "devices.slowdown needs devices.concurrency of at least 2; it is 1"},
    {"faster_beside_others", with("per_node = 2", "per_node = 2\nslowdown = 0.9"), 5,
     "devices.slowdown must be"},
    {"more_noise_than_can_be", kGood + "[noise]\nshare = 0.3\nsource = \"s\"\n", 23,
     "noise.share must be"},
    {"more_sms_taken_than_there_are", kGood + "[communication]\nsms = 4\nsource = \"s\"\n", 22,
     "communication.sms must be fewer"},
    {"message_faster_than_its_link", with("latency_us = 3", "messages = [[1000, 101]]"), 9,
     "fabric.messages: 1000 bytes at 101 GB/s is faster than the link (100 GB/s)"},
    {"messages_that_fall", with("latency_us = 3", "messages = [[1000, 10], [900, 10]]"), 12,
     "fabric.messages must be in order of size"},
    {"message_that_overtakes", with("latency_us = 3", "messages = [[1000, 10], [1001, 90]]"), 12,
     "a longer message must not arrive sooner"},
    {"message_of_one_number", with("latency_us = 3", "messages = [[1000]]"), 12,
     "fabric.messages must be a list of [bytes, GB/s] pairs"},
    {"twice", with("gb_per_s = 1000", "gb_per_s = 1000\ngb_per_s = 2"), 8, "gb_per_s"},
    {"not_toml", with("[memory]", "[memory"), 6, ""},
    {"a_letter_for_a_number", with("= 1000", "= \xc3\xa9"), 7, ""},
    {"a_line_break_in_a_key", with("[memory]", "\"a\\nb\".x = 1\n\"a\\nb\".x = 2"), 7, "a"},
    {"no_key_in_a_header", with("[memory]", "[="), 6, "key"},
    {"collective_of_an_unknown_kind", kGood + collective("kind = \"broadcast\"", "per_node = 2"),
     23, "collective.kind must be one of: all-gather, all-reduce, all-to-all, reduce-scatter"},
    {"collective_without_members", kGood + collective("kind = \"all-gather\"", "nodes = 2"), 22,
     "collective.per_node is missing"},
    {"collective_of_one", kGood + collective("kind = \"all-gather\"", "per_node = 1"), 22,
     "collective.per_node times collective.nodes is 1; use at least 2"},
    {"collective_of_no_groups",
     kGood + collective("kind = \"all-gather\"", "per_node = 2\ngroups = 0"), 25,
     "collective.groups must be a whole number from 1"},
    {"collective_without_figures",
     kGood + "[[collective]]\nkind = \"all-gather\"\nper_node = 2\nsource = \"s\"\n", 22,
     "collective.busbw is missing"},
    {"collective_without_a_source",
     kGood + "[[collective]]\nkind = \"all-gather\"\nper_node = 2\nbusbw = [[1, 1]]\n", 22,
     "[collective] needs \"source\""},
    {"collective_figures_that_fall",
     kGood + collective("kind = \"all-gather\"", "per_node = 2", "[[2, 1], [1, 1]]"), 25,
     "collective.busbw must be in order of size"},
    {"collective_table_for_a_list", kGood + "[collective]\nkind = \"all-gather\"\n", 22,
     "collective must be a list"},
    {"two_collectives_for_the_same",
     kGood + collective("kind = \"all-gather\"", "per_node = 2") +
         collective("kind = \"all-gather\"", "per_node = 2\ngroups = 1"),
     27, "collective: a second table for all-gather with per_node 2, nodes 1, groups 1"},
    {"a_library_of_two_lines", with("head_dim = 64", "head_dim = 64\nlibrary = \"a\\nb\""), 19,
     "kernel.library must be one line"},
};

// A derived profile keeps what its base measured over links that are still the same.
TEST(MachineProfile, KeepsCollectivesOfItsBaseWhileTheLinksAreTheSame) {
  const auto derived = [](const std::string& more) {
    return read_machine("name = \"a\"\nsummary = \"b\"\nbase = \"dgx-a100\"\n" + more, "a.toml")
        .collectives;
  };
  const std::vector<CollectiveTable> base = find_machine("dgx-a100").collectives;
  ASSERT_EQ(base.size(), 12u);
  EXPECT_EQ(derived(""), base);
  EXPECT_EQ(find_machine("dgx-a100x2-ib100").collectives, base);
  EXPECT_TRUE(derived("[fabric]\ngb_per_s = 200\nsource = \"s\"\n").empty());
  EXPECT_EQ(derived("[network]\nnics = 1\nsource = \"s\"\n"), base);
  std::vector<CollectiveTable> expected = base;
  const auto same = std::find_if(expected.begin(), expected.end(), [](const CollectiveTable& c) {
    return c.kind == ExchangeForm::AllGather;
  });
  same->busbw = {{1, 1}};
  same->source = "s";
  EXPECT_EQ(derived(collective("kind = \"all-gather\"", "per_node = 8")), expected);
  expected = base;
  expected.push_back({ExchangeForm::AllGather, 8, 2, 4, {{1, 1}}, 0, "s"});
  EXPECT_EQ(derived(collective("kind = \"all-gather\"", "per_node = 8\nnodes = 2\ngroups = 4")),
            expected);
}

class BadMachineProfile : public testing::TestWithParam<BadProfile> {};

TEST_P(BadMachineProfile, IsRefusedInOneLineWithFileLineAndKey) {
  const auto& [name, toml, line, says] = GetParam();
  const std::string error = error_of_machine(toml);
  EXPECT_THAT(error, StartsWith(fmt::format("mine.toml:{}: ", line)));
  EXPECT_THAT(error, HasSubstr(says));
  EXPECT_THAT(error, Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(Machine, BadMachineProfile, testing::ValuesIn(kBad),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace ringsched
