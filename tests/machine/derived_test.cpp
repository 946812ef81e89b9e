// Profiles that start from others, by name or path, and what replaces the tables of the base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHead = "name = \"mine\"\nsummary = \"s\"\n";

std::string kernel(const std::string& pass, const std::string& mask, const std::string& dtypes,
                   int dim, const std::string& tflops, const std::string& more = "") {
  return "[[kernel]]\npass = \"" + pass + "\"\nmask = \"" + mask + "\"\ndtypes = [" + dtypes +
         "]\nhead_dim = " + std::to_string(dim) + "\ntokens = [100, 200]\ntflops = [" + tflops +
         "]\nsource = \"s\"\n" + more;
}

class DerivedProfile : public testing::Test {
 protected:
  DerivedProfile() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_ / "below");
  }
  ~DerivedProfile() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string error_of(const std::string& path) {
    try {
      find_machine(path);
    } catch (const Error& e) {
      return e.what();
    }
    return "it was read";
  }
  std::filesystem::path folder_;
};

TEST_F(DerivedProfile, FindsABaseFromTheFolderOfTheFileThatNamesIt) {
  write("base.toml", kHead + "base = \"dgx-a100\"\n[launch]\nus = 7\nsource = \"s\"\n");
  write("below/middle.toml", kHead + "base = \"../base.toml\"\n");
  const Machine m = find_machine(write("top.toml", kHead + "base = \"below/middle.toml\"\n"));
  EXPECT_EQ(m.launch_us, 7);
  EXPECT_EQ(m.devices(), 8u);
  EXPECT_EQ(m.name, "mine");
}

TEST_F(DerivedProfile, NamesTheBaseThatIsWrong) {
  const std::string base = write("base.toml", kHead + "base = \"dgx-a100\"\n[launch]\nus = -1\n");
  const std::string top = write("top.toml", kHead + "base = \"base.toml\"\n");
  EXPECT_THAT(error_of(top), testing::StartsWith(base + ":5: launch.us must be"));
  const std::string none = write("none.toml", kHead + "base = \"nowhere.toml\"\n");
  EXPECT_THAT(error_of(none), testing::StartsWith(none + ":3: base: "));
  EXPECT_THAT(error_of(none), HasSubstr("nowhere.toml"));
}

TEST_F(DerivedProfile, RefusesToGoRoundInCircles) {
  const std::string self = write("self.toml", kHead + "base = \"./below/../self.toml\"\n");
  EXPECT_THAT(error_of(self), testing::StartsWith(self + ":3: base: "));
  EXPECT_THAT(error_of(self), HasSubstr("is based on itself"));
  const std::string a = write("a.toml", kHead + "base = \"b.toml\"\n");
  const std::string b = write("b.toml", kHead + "base = \"a.toml\"\n");
  EXPECT_THAT(error_of(a), testing::StartsWith(b + ":3: base: "));
  for (int i = 0; i < 20; ++i)
    write("c" + std::to_string(i) + ".toml",
          kHead + "base = \"c" + std::to_string(i + 1) + ".toml\"\n");
  EXPECT_THAT(error_of((folder_ / "c0.toml").string()), HasSubstr("more than 16 profiles"));
}

TEST_F(DerivedProfile, TakesSoftwareFromFilesToo) {
  const std::string base = write(
      "base.toml", kHead + "base = \"lightseq\"\n[software]\nmerge_bytes = 5\nsource = \"s\"\n");
  EXPECT_EQ(find_software(base).merge_bytes, 5);
  EXPECT_EQ(find_software(base).host.synchronises, Synchronises::Steps);
  const std::string top = write(
      "below/top.toml", kHead + "base = \"../base.toml\"\n[host]\npost_us = 9\nsource = \"s\"\n");
  EXPECT_EQ(find_software(top).host.post_us, 9);
  EXPECT_EQ(find_software(top).merge_bytes, 5);
  const std::string loop = write("loop.toml", kHead + "base = \"loop.toml\"\n");
  EXPECT_THROW(find_software(loop), Error);
  EXPECT_THROW(find_software(write("m.toml", kHead + "[memory]\n")), Error);
}

// What a file says of waits or graphs replaces what its base says, which would contradict it.
TEST_F(DerivedProfile, OfALibraryMayEndTheWaitsAndGraphsOfItsBase) {
  const std::string waits = "\"steps\"\nsynchronise_us = 50\n", end = "source = \"s\"\n";
  write("waits.toml", kHead + "[host]\nsynchronises = " + waits + end);
  write("graph.toml", kHead + "[host]\ngraph_us = 6\ngraph_node_us = 1\n" + end);
  const auto host = [&](const char* base, const std::string& keys) {
    return find_software(write("c.toml", kHead + "base = \"" + base + "\"\n[host]\n" + keys + end))
        .host;
  };
  EXPECT_TRUE(host("waits.toml", "synchronises = \"never\"\n").issues_in_no_time());
  EXPECT_EQ(host("waits.toml", "graph_us = 3\n").synchronises, Synchronises::Never);
  EXPECT_EQ(host("waits.toml", "post_us = 3\n").synchronise_us, 50);
  EXPECT_EQ(host("graph.toml", "synchronises = \"steps\"\n").graph_us, 0);
  EXPECT_EQ(host("graph.toml", "synchronises = \"never\"\n").graph_us, 6);
}

// By library, pass, mask, head dimension and each dtype.
TEST_F(DerivedProfile, ReplacesKernelsForTheSameAndKeepsTheOthers) {
  const Machine base = find_machine("dgx-a100");
  const auto of = [](const Machine& m, bool backward, TileShape shape, std::uint32_t dim, Dtype d) {
    std::vector<const KernelTable*> out;
    for (const KernelTable& k : m.kernels)
      if (k.backward == backward && k.shape == shape && k.head_dim == dim &&
          std::find(k.dtypes.begin(), k.dtypes.end(), d) != k.dtypes.end())
        out.push_back(&k);
    return out;
  };
  const Machine m = read_machine(kHead + "base = \"dgx-a100\"\n" +
                                     kernel("forward", "full", "\"bf16\", \"fp32\"", 128, "1, 2") +
                                     kernel("backward", "causal", "\"bf16\", \"fp16\"", 32, "3, 4"),
                                 "mine.toml");
  const auto own = of(m, false, TileShape::Full, 128, Dtype::Bf16);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_THAT(own[0]->tflops, ElementsAre(1, 2));
  const auto kept = of(m, false, TileShape::Full, 128, Dtype::Fp16);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0]->tflops, of(base, false, TileShape::Full, 128, Dtype::Fp16)[0]->tflops);
  EXPECT_EQ(of(m, false, TileShape::Full, 128, Dtype::Fp32).size(), 1u);
  EXPECT_EQ(of(m, true, TileShape::Causal, 32, Dtype::Fp16).size(), 1u);
  EXPECT_EQ(of(m, false, TileShape::Causal, 128, Dtype::Bf16).size(), 1u) << "another mask";
  EXPECT_EQ(m.kernels.size(), base.kernels.size() + 2);
}

TEST_F(DerivedProfile, BelongsToTheLibraryOfItsBaseIfItNamesNone) {
  const Machine base = find_machine("hgx-h100");
  const std::string own = kernel("forward", "full", "\"bf16\", \"fp16\"", 128, "1, 2");
  const Machine m = read_machine(kHead + "base = \"hgx-h100\"\n" + own, "mine.toml");
  EXPECT_EQ(m.kernels.size(), base.kernels.size());
  EXPECT_EQ(m.kernels[0].library, "cudnn");
  const Machine other = read_machine(
      kHead + "base = \"hgx-h100\"\nlibrary = \"mine\"\n" + own + "library = \"mine\"\n",
      "mine.toml");
  EXPECT_EQ(other.kernels.size(), base.kernels.size() + 1);
  EXPECT_EQ(other.library, "mine");
}

// A table of messages and the rate of a channel exclude each other; a profile's own comes first.
TEST_F(DerivedProfile, ReplacesChannelsByMessages) {
  const std::string head = kHead + "base = \"hgx-h100\"\n[fabric]\nsource = \"s\"\n";
  const Machine base = find_machine("hgx-h100");
  EXPECT_GT(base.fabric.channel_gb_per_s, 0);
  const Machine own = read_machine(head + "messages = [[1e6, 100]]\n", "mine.toml");
  EXPECT_EQ(own.fabric.channel_gb_per_s, 0);
  EXPECT_EQ(link_among(own.fabric, 8).messages.size(), 1u);
  EXPECT_TRUE(
      link_among(read_machine(head + "messages = []\n", "mine.toml").fabric, 8).messages.empty());
  EXPECT_EQ(link_among(read_machine(head + "channel_gb_per_s = 10\n", "mine.toml").fabric, 8)
                .messages[0]
                .gb_per_s,
            40);
  const std::string pcie =
      kHead + "base = \"pcie-a100x4\"\n[fabric]\nsource = \"s\"\nchannel_gb_per_s = 1\n";
  EXPECT_EQ(link_among(read_machine(pcie, "mine.toml").fabric, 8).messages[0].gb_per_s, 4);
  EXPECT_THROW(read_machine(pcie + "messages = [[1e6, 100]]\n", "mine.toml"), Error);
}

TEST_F(DerivedProfile, ClearsListsOfItsBase) {
  const std::string slower = kHead + "base = \"pcie-a100x4\"\n[fabric]\ngb_per_s = 12\n";
  EXPECT_THROW(read_machine(slower + "source = \"s\"\n", "mine.toml"), Error);
  const Machine m = read_machine(slower + "messages = []\nsource = \"s\"\n", "mine.toml");
  EXPECT_TRUE(m.fabric.link.messages.empty());
  EXPECT_EQ(m.fabric.link.latency_us, find_machine("pcie-a100x4").fabric.link.latency_us);
  const Machine none = read_machine(kHead + "base = \"dgx-a100\"\ncollective = []\n", "mine.toml");
  EXPECT_TRUE(none.collectives.empty());
  EXPECT_EQ(none.kernels, find_machine("dgx-a100").kernels);
  EXPECT_THROW(read_machine(kHead + "base = \"dgx-a100\"\nkernel = []\n", "mine.toml"), Error);
}

TEST_F(DerivedProfile, MayGiveOneNumberOfHeadsForAllPoints) {
  const auto with_heads = [](const std::string& heads) {
    return read_machine(kHead + "base = \"dgx-a100\"\n" +
                            kernel("forward", "full", "\"fp32\"", 128, "1, 2", heads),
                        "mine.toml")
        .kernels[0];
  };
  EXPECT_THAT(with_heads("heads = 16\n").heads, ElementsAre(16, 16));
  EXPECT_EQ(with_heads("heads = 16\n"), with_heads("heads = [16, 16]\n"));
  EXPECT_THROW(with_heads("heads = 0\n"), Error);
  EXPECT_THROW(with_heads("heads = \"16\"\n"), Error);
}

}  // namespace
}  // namespace ringsched
