#include "ringsched/scheduler/problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ringsched/scheduler/error.hpp"
#include "support/refusal.hpp"

namespace ringsched {
namespace {

std::string refusal_after(const std::function<void(Problem&)>& change) {
  return ringsched::refusal([&] {
    Problem p;
    change(p);
    require_valid(p);
  });
}

TEST(Problem, IsCheckedFieldByField) {
  using P = Problem;
  EXPECT_EQ(refusal_after([](P&) {}), "");
  EXPECT_EQ(refusal_after([](P& p) { p.tokens = {p.workers}; }), "");
  EXPECT_EQ(refusal_after([](P& p) { p.tokens = {kMaxTokens}; }), "");
  EXPECT_EQ(refusal_after([](P& p) { p.tokens = {3}; }),
            "tokens is 3, but 8 workers need at least 8 (one each)");
  EXPECT_EQ(refusal_after([](P& p) { p.tokens = {kMaxTokens + 1}; }),
            "tokens is 2147483648; use 1 to 2147483647");
  EXPECT_EQ(refusal_after([](P& p) { p.workers = 0; }), "workers is 0; use 1 to 65535");
  EXPECT_EQ(refusal_after([](P& p) { p.workers = 65536; }), "workers is 65536; use 1 to 65535");
  EXPECT_EQ(refusal_after([](P& p) { p.kv_heads = 5; }),
            "kv_heads is 5, which does not divide heads (32)");
  EXPECT_EQ(refusal_after([](P& p) { p.kv_heads = 0; }), "kv_heads is 0; use 1 to 16384");
  EXPECT_EQ(refusal_after([](P& p) { p.head_dim = 4097; }), "head_dim is 4097; use 1 to 4096");
  EXPECT_EQ(refusal_after([](P& p) {
              p.mask = Mask::documents({{5}, {6}});
            }),
            "the mask's documents add up to 11 tokens, but tokens is 65536");
}

TEST(Problem, NamesAreParsedOrAskedBack) {
  for (const Dtype d : {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16})
    EXPECT_EQ(parse_dtype(to_text(d)), d);
  for (const Pass p : {Pass::Forward, Pass::Backward, Pass::Both})
    EXPECT_EQ(parse_pass(to_text(p)), p);
  EXPECT_THAT(ringsched::refusal([] { parse_dtype("bf61"); }),
              testing::HasSubstr("did you mean bf16?"));
  EXPECT_THAT(ringsched::refusal([] { parse_pass("froward"); }),
              testing::HasSubstr("did you mean forward?"));
}

TEST(Problem, CountsAreReadAsPeopleTypeThem) {
  EXPECT_EQ(parse_count("65536", "x"), 65536);
  EXPECT_EQ(parse_count("64K", "x"), 65536);
  EXPECT_EQ(parse_count("64k", "x"), 65536);
  EXPECT_EQ(parse_count("2M", "x"), std::int64_t{2} << 20);
  EXPECT_EQ(parse_count("1G", "x"), std::int64_t{1} << 30);
  for (const char* bad : {"", "-1", "1.5", "64Q", "64KK", " 5", "5 ", "K", "9999999999999999999",
                          "8589934592G", "0x10", "+3"})
    EXPECT_THAT(ringsched::refusal([&] { parse_count(bad, "--tokens"); }),
                testing::StartsWith(fmt::format("--tokens is '{}'", bad)))
        << bad;
}

}  // namespace
}  // namespace ringsched
