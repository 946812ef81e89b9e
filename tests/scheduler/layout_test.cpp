#include "ringsched/scheduler/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {
namespace {

// Who holds a token, from each layout's definition.
std::uint32_t holder(std::string_view name, std::int64_t x, std::int64_t w, std::int64_t tokens) {
  const auto part = [&](std::int64_t parts) {
    std::int64_t p = 0;
    for (std::int64_t end = 0;; ++p) {
      end += tokens / parts + (p < tokens % parts ? 1 : 0);
      if (x < end) return p;
    }
  };
  if (name == "striped") return static_cast<std::uint32_t>(x % w);
  if (name == "zigzag") {
    const std::int64_t p = part(2 * w);
    return static_cast<std::uint32_t>(p < w ? p : 2 * w - 1 - p);
  }
  return static_cast<std::uint32_t>(part(w));
}

TEST(Layout, HoldsEachTokenOnTheWorkerOfItsDefinition) {
  for (const std::string_view name : layout_names())
    for (std::uint32_t w = 1; w <= 33; ++w)
      for (std::int64_t tokens = w; tokens <= 4 * std::int64_t{w} + 3; ++tokens) {
        const Layout l = make_layout(name, {.workers = w, .tokens = {tokens}});
        ASSERT_NO_THROW(require_valid(l, {tokens})) << name << " W=" << w << " tokens " << tokens;
        std::int64_t held = 0;
        for (std::uint32_t c = 0; c < l.chunks.size(); ++c)
          for (std::int64_t i = 0; i < l.chunks[c].count; ++i, ++held)
            ASSERT_EQ(l.owner({c}).value, holder(name, l.chunks[c].position(i), w, tokens));
        ASSERT_EQ(held, tokens);
        for (std::uint32_t r = 0; r < w; ++r) ASSERT_GE(l.rows(l.share({r})).value, 1);
      }
}

// Each document by itself is in zigzag, and the front parts of all come before the back parts.
TEST(Layout, CutsEachDocumentFromBothEnds) {
  const std::vector<std::vector<Tokens>> packs = {
      {{40}, {7}, {1}, {64}}, {{3}, {3}}, {{5}, {90}, {2}, {2}, {31}}, {{100}}};
  for (const std::vector<Tokens>& documents : packs)
    for (std::uint32_t w = 1; w <= 9; ++w) {
      Problem p{.workers = w, .tokens = {}, .mask = Mask::documents(documents)};
      for (const Tokens n : documents) p.tokens += n;
      const Layout l = zigzag_of_documents(p);
      ASSERT_NO_THROW(require_valid(l, p.tokens));
      const auto d = static_cast<std::uint32_t>(documents.size());
      for (std::uint32_t r = 0; r < w; ++r) {
        ASSERT_EQ(l.share({r}).count, 2 * d);
        for (std::uint32_t i = 0; i < 2 * d; ++i) {
          const TokenRange& chunk = l.chunks[l.share({r}).first.value + i];
          std::int64_t start = 0;
          for (std::uint32_t before = 0; before < i % d; ++before) start += documents[before].value;
          const std::int64_t n = documents[i % d].value;
          for (std::int64_t k = 0; k < chunk.count; ++k) {
            const std::int64_t x = chunk.position(k) - start;
            ASSERT_TRUE(0 <= x && x < n);
            ASSERT_EQ(holder("zigzag", x, w, n), r);
          }
          // A front part ends before the back part of the same document begins.
          const TokenRange& back = l.chunks[l.share({r}).first.value + i % d + d];
          if (i < d && chunk.count > 0 && back.count > 0) {
            ASSERT_LT(chunk.position(chunk.count - 1), back.start);
          }
        }
      }
    }
}

TEST(Layout, CutsHalvesInsideTheContiguousShares) {
  const Layout l = halves(3, {11});
  EXPECT_EQ(l.chunks, (std::vector<TokenRange>{
                          {0, 1, 2}, {2, 1, 2}, {4, 1, 2}, {6, 1, 2}, {8, 1, 2}, {10, 1, 1}}));
  EXPECT_EQ(l.share({1}), (Region{{2}, 2}));
}

TEST(Layout, LeavesZigzagPartsEmptyWhenThereAreFewTokens) {
  const Layout l = zigzag(4, {5});
  EXPECT_EQ(l.rows(l.share({3})).value, 2);  // parts 3 and 4
  EXPECT_EQ(l.rows(l.share({0})).value, 1);  // part 0; part 7 is empty
}

Layout custom(std::vector<TokenRange> chunks) {
  const auto n = static_cast<std::uint32_t>(chunks.size());
  return custom_layout(std::move(chunks), {{{0}, n}});
}

std::string fault_of(const Layout& l, std::int64_t tokens) {
  try {
    require_valid(l, {tokens});
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Layout, AcceptsEveryPartitionIntoStrides) {
  EXPECT_EQ(fault_of(custom({{0, 2, 3}, {1, 2, 2}}), 5), "accepted");
  EXPECT_EQ(fault_of(custom({{4, 2, 2}, {0, 2, 2}, {1, 2, 4}}), 8), "accepted");
  EXPECT_EQ(fault_of(custom({{0, 1, 3}, {3, 2, 2}, {4, 2, 2}}), 7), "accepted");
  EXPECT_EQ(fault_of(custom({{0, 7, 1}, {1, 1, 4}}), 5), "accepted");
  constexpr std::int64_t huge = kMaxTokens;
  EXPECT_EQ(fault_of(custom({{0, 2, (huge + 1) / 2}, {1, 2, huge / 2}}), huge), "accepted");
}

TEST(Layout, NamesTheTokenThatIsMissingOrHeldTwice) {
  using testing::HasSubstr;
  EXPECT_THAT(fault_of(custom({{0, 1, 3}, {4, 1, 2}}), 6), HasSubstr("token 3 is in no chunk"));
  EXPECT_THAT(fault_of(custom({{0, 1, 3}}), 6), HasSubstr("token 3 is in no chunk"));
  EXPECT_THAT(fault_of(custom({{0, 1, 4}, {3, 1, 3}}), 6),
              HasSubstr("token 3 is in chunks 0 and 1"));
  EXPECT_THAT(fault_of(custom({{0, 2, 3}, {1, 2, 2}}), 6), HasSubstr("token 5 is in no chunk"));
  EXPECT_THAT(fault_of(custom({{0, 2, 3}, {4, 2, 1}, {1, 2, 3}}), 6), HasSubstr("token 4"));
  EXPECT_THAT(fault_of(custom({{0, 1, 2}, {0, 2, 2}}), 4), HasSubstr("token 0"));
  EXPECT_THAT(fault_of(custom({{1, 3, 2}, {2, 3, 2}}), 6), HasSubstr("token 0 is in no chunk"));
}

TEST(Layout, RefusesHostileNumbersAtOnce) {
  constexpr std::int64_t big = std::int64_t{1} << 62;
  for (const TokenRange r :
       {TokenRange{big, 1, 2}, TokenRange{0, big, 2}, TokenRange{0, 1, big}, TokenRange{-1, 1, 2},
        TokenRange{0, 0, 2}, TokenRange{0, -1, 2}, TokenRange{0, 1, -1}, TokenRange{3, 1, 2}})
    EXPECT_NE(fault_of(custom({r}), 4), "accepted") << r.start << " " << r.stride << " " << r.count;
  Layout other_owners = contiguous(2, {4});
  std::swap(other_owners.owners[0], other_owners.owners[1]);
  EXPECT_EQ(fault_of(other_owners, 4), "the owners of the chunks contradict the shares");
}

TEST(Layout, HasEachChunkInOneShare) {
  const auto fault = [](std::vector<Region> shares) -> std::string {
    try {
      custom_layout({{0, 1, 2}, {2, 1, 2}, {4, 1, 2}}, std::move(shares));
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(fault({{{1}, 2}, {{0}, 1}}), "accepted");
  EXPECT_EQ(fault({}), "chunk 0 is in no worker's share");
  EXPECT_EQ(fault({{{0}, 1}, {{2}, 1}}), "chunk 1 is in no worker's share");
  EXPECT_EQ(fault({{{0}, 2}, {{1}, 2}}), "chunk 1 is in the shares of workers 0 and 1");
  EXPECT_EQ(fault({{{0}, 3}, {{1}, 0}}), "worker 1 has no chunk");
  EXPECT_EQ(fault({{{0}, 4}}), "the share of worker 0 reaches past the last of 3 chunks");
  EXPECT_EQ(fault({{{1}, ~0u}}), "the share of worker 0 reaches past the last of 3 chunks");
  const Layout l = custom_layout({{0, 1, 2}, {2, 1, 2}, {4, 1, 2}}, {{{1}, 2}, {{0}, 1}});
  EXPECT_EQ(l.owner({0}).value, 1u);
  EXPECT_EQ(l.owner({2}).value, 0u);
}

TEST(Layout, AsksBackByTheNearestName) {
  try {
    make_layout("zigzga", {.workers = 2, .tokens = {4}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("did you mean zigzag?"));
  }
}

}  // namespace
}  // namespace ringsched
