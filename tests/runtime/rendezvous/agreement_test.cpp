#include "ringsched/runtime/agreement.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(Agreement, IsSilent) {
  const Facts f = {{"the plan", "a"}, {"the dtype", "bf16"}};
  EXPECT_EQ(disagreement({f}), "");
  EXPECT_EQ(disagreement({f, f, f}), "");
  EXPECT_EQ(disagreement(*make_local_world(), f), "");
}

TEST(Agreement, NamesWhatDiffersBetweenWhomAndHow) {
  const auto with = [](const char* dtype, const char* plan) {
    return Facts{{"the dtype", dtype}, {"the plan", plan}};
  };
  EXPECT_EQ(disagreement({with("bf16", "a"), with("bf16", "a"), with("fp32", "a")}),
            "the processes do not agree on the dtype: 'bf16' in processes 0 and 1, 'fp32' in "
            "process 2");
  EXPECT_EQ(disagreement({with("bf16", "a"), with("fp32", "b"), with("fp16", "a")}),
            "the processes do not agree on the dtype: 'bf16' in process 0, 'fp32' in process 1, "
            "'fp16' in process 2; on the plan: 'a' in processes 0 and 2, 'b' in process 1");
}

TEST(Agreement, NamesWhatSomeDoNotKnow) {
  EXPECT_EQ(disagreement({Facts{{"x", "1"}}, Facts{}}),
            "the processes do not agree on x: '1' in process 0, none in process 1");
}

TEST(Agreement, OfManyNamesSome) {
  std::vector<Facts> all(20, Facts{{"x", "1"}});
  all[3][0].second = "2";
  EXPECT_EQ(disagreement(all),
            "the processes do not agree on x: '1' in processes 0, 1, 2, 4, 5, 6 and 13 more, '2' "
            "in process 3");
}

}  // namespace
}  // namespace ringsched
