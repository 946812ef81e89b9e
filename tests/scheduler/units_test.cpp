// What must not compile does not.
#include "ringsched/scheduler/units.hpp"

#include <gtest/gtest.h>

#include <concepts>

namespace ringsched {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};

static_assert(!Addable<TaskId, TaskId> && !Addable<TaskId, int>);
static_assert(!Comparable<TaskId, TensorId> && Comparable<TaskId, TaskId>);
static_assert(!std::convertible_to<WorkerId, ChunkId> &&
              !std::convertible_to<std::uint32_t, WorkerId>);
static_assert(Addable<Bytes, Bytes> && !Addable<Bytes, Tokens> && !Addable<Bytes, std::int64_t>);
static_assert(!Comparable<Bytes, Pairs> && !std::convertible_to<Tokens, Bytes>);
static_assert(sizeof(TaskId) == 4 && sizeof(Bytes) == 8);

TEST(Units, CountAndName) {
  EXPECT_FALSE(TaskId{}.valid());
  EXPECT_TRUE(TaskId{0}.valid());
  EXPECT_EQ((Bytes{3} + 2 * Bytes{4} - Bytes{1}).value, 10);
  constexpr Bytes most{std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(capped_sum(Bytes{3}, Bytes{4}), Bytes{7});
  EXPECT_EQ(capped_sum(most - Bytes{4}, Bytes{4}), most);
  EXPECT_EQ(capped_sum(most - Bytes{4}, Bytes{5}), most);
}

}  // namespace
}  // namespace ringsched
