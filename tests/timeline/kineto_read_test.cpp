// What is read from a trace of PyTorch's profiler, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ringsched/timeline/trace_import.hpp"
#include "support/refusal.hpp"

namespace ringsched {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string event(const char* category, const char* name, double start, double length,
                  const std::string& rest = "") {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","tid":1,"ts":{},"dur":{}{}}})", category,
                     name, start, length, rest);
}

std::string trace(std::initializer_list<std::string> events) {
  std::string text = R"({"distributedInfo":{"backend":"gloo","rank":3},"host_name":"h",)"
                     R"("baseTimeNanoseconds":1000000000,"traceEvents":[)";
  for (const std::string& e : events) text += (text.back() == '[' ? "" : ",") + e;
  return text + "]}";
}

std::vector<TraceWork> works(const RankTrace& t) {
  std::vector<TraceWork> out;
  for (const TraceEvent& e : t.events) out.push_back(e.work);
  return out;
}

constexpr const char* kAttend = "aten::_scaled_dot_product_flash_attention_for_cpu";
using enum TraceWork;

TEST(KinetoRead, TimesCountFromTheFirstEvent) {
  const RankTrace t = read_kineto(
      trace({event("cpu_op", kAttend, 5000.25, 1.5), event("cpu_op", "aten::add", 5002, 0.001)}),
      "t");
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.host, "h");
  EXPECT_EQ(t.device, "gloo");
  EXPECT_EQ(t.origin_ns, 1'000'000'000 + 5'000'000);
  ASSERT_THAT(t.events, SizeIs(2));
  EXPECT_EQ(t.events[0].start_ps, 250'000);
  EXPECT_EQ(t.events[0].end_ps, 1'750'000);
  EXPECT_EQ(t.events[1].start_ps, 2'000'000);
  EXPECT_EQ(t.events[1].end_ps, 2'001'000);
}

TEST(KinetoRead, MessagesHaveThePeerTagAndBytesOfRecordedShapes) {
  const RankTrace t = read_kineto(
      trace({event("cpu_op", "c10d::send", 10, 5, R"(,"args":{"Concrete Inputs":["","","2","7"]})"),
             event("user_annotation", "gloo:send", 12, 50,
                   R"(,"args":{"Input type":["c10::BFloat16"],"Input Dims":[[1,8,4]]})"),
             event("user_annotation", "gloo:recv", 70, 2), event("cpu_op", kAttend, 80, 1)}),
      "t");
  ASSERT_THAT(works(t), testing::ElementsAre(Send, Receive, Attend));
  EXPECT_EQ(t.events[0].peer, 2);
  EXPECT_EQ(t.events[0].tag, 7);
  EXPECT_EQ(t.events[0].bytes, 64);
  EXPECT_EQ(t.events[0].start_ps, 0);  // of the call that posted it
  EXPECT_EQ(t.events[1].peer, -1);
  EXPECT_EQ(t.events[1].bytes, -1);
}

TEST(KinetoRead, AttendsHaveThePairsOfRecordedShapes) {
  const auto pairs = [](const char* name, const char* dims, const char* inputs) {
    return read_kineto(
               trace({event("cpu_op", name, 0, 1,
                            fmt::format(R"(,"args":{{"Input Dims":{},"Concrete Inputs":{}}})", dims,
                                        inputs))}),
               "t")
        .events.at(0)
        .pairs;
  };
  constexpr const char *forward = R"(["","","","0.","False","",""])",
                       *causal = R"(["","","","0.","True","",""])";
  EXPECT_EQ(pairs(kAttend, "[[1,2,64,16],[1,2,128,16],[1,2,128,16],[],[],[],[]]", forward),
            64 * 128);
  EXPECT_EQ(pairs(kAttend, "[[1,2,64,16],[1,2,64,16],[1,2,64,16],[],[],[],[]]", causal),
            64 * 65 / 2);
  const std::string backward = std::string(kAttend) + "_backward";
  EXPECT_EQ(
      pairs(backward.c_str(),
            "[[1,2,9,16],[1,2,64,16],[1,2,32,16],[1,2,32,16],[1,2,64,16],[1,2,64],[],[],[],[]]",
            R"(["","","","","","","0.","False","",""])"),
      64 * 32);
  EXPECT_EQ(
      pairs("aten::_scaled_dot_product_attention_math",
            "[[1,2,64,16],[1,2,32,16],[1,2,32,16],[],[],[]]", R"(["","","","","0.","False"])"),
      64 * 32);
  // Which end a causal mask of unequal sides hangs from differs between libraries; a mask hides
  // what it likes.
  EXPECT_EQ(pairs(kAttend, "[[1,2,64,16],[1,2,128,16],[],[],[],[],[]]", causal), -1);
  EXPECT_EQ(pairs(kAttend, "[[1,2,64,16],[1,2,64,16],[],[],[],[64,64],[]]", forward), -1);
  EXPECT_EQ(pairs(kAttend, "[[64,16],[64,16],[],[],[],[],[]]", forward), -1);
  EXPECT_EQ(pairs(kAttend, "[[1,2,-4,16],[1,2,64,16],[],[],[],[],[]]", forward), -1);
  EXPECT_EQ(pairs(kAttend, "[[1,2,64,16]]", "[]"), -1);
  EXPECT_EQ(pairs(kAttend, "7", forward), -1);
}

TEST(KinetoRead, OnlyKernelsCountWhereThereAreAny) {
  const RankTrace t = read_kineto(
      trace({event("cpu_op", kAttend, 0, 1),
             event("kernel", "void pytorch_flash::flash_fwd_kernel<Traits>(Params)", 5, 1),
             event("kernel", "void pytorch_flash::flash_fwd_splitkv_combine_kernel<T>()", 6, 1),
             event("kernel", "void flash_bwd_dot_do_o_kernel<T>()", 7, 1),
             event("kernel", "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<T>()", 8, 1),
             event("kernel", "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma", 9, 1),
             event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 10, 1),
             event("kernel", "ncclDevKernel_AllGather_RING_LL(x)", 11, 1)}),
      "t");
  EXPECT_THAT(works(t), testing::ElementsAre(Attend, Compute, Compute, AttendBackward,
                                             AttendBackward, SendReceive, Exchange));
  EXPECT_EQ(t.events.back().form, ExchangeForm::AllGather);
}

TEST(KinetoRead, WhatLiesInsideAnAttendIsApartOfIt) {
  const RankTrace t = read_kineto(
      trace({event("cpu_op", kAttend, 0, 10), event("cpu_op", "aten::mul", 2, 3),
             event("cpu_op", "aten::mul", 12, 3), event("cpu_op", "aten::view", 12, 3)}),
      "t");
  EXPECT_THAT(works(t), testing::ElementsAre(Attend, Compute));
}

TEST(KinetoRead, OtherNamesMayBeAttends) {
  const std::string text =
      trace({event("user_annotation", "my attend", 0, 10), event("cpu_op", kAttend, 20, 3),
             event("user_annotation", "my attend, backward", 30, 10)});
  TraceNames names{"my attend", "backward", ""};
  EXPECT_THAT(works(read_kineto(text, "t", names)),
              testing::ElementsAre(Attend, Compute, AttendBackward));
  names = {"", "", "my attend"};
  EXPECT_THAT(read_kineto(text, "t", names).ranges, SizeIs(1));
}

TEST(KinetoRead, RefusesInOneLine) {
  const std::string good = trace({event("cpu_op", kAttend, 0, 1)});
  const auto refused = [](const std::string& text) {
    return refusal([&] { read_kineto(text, "t.json"); });
  };
  EXPECT_EQ(refused(good), "");
  for (std::size_t n = 0; n < good.size(); ++n) {
    const std::string why = refused(good.substr(0, n));
    EXPECT_THAT(why, StartsWith("t.json:")) << n;
    EXPECT_EQ(why.find('\n'), why.npos);
  }
  EXPECT_THAT(refused("{}"),
              EndsWith("no \"traceEvents\": this is not a trace of PyTorch's profiler"));
  EXPECT_THAT(refused(R"({"traceEvents":7})"), HasSubstr("must be a list, not 7"));
  EXPECT_THAT(refused(trace({})), HasSubstr("nothing was profiled"));
  EXPECT_THAT(refused(trace({R"({"ph":"X","cat":"kernel","name":"k"})"})),
              EndsWith("event 0: \"ts\" is missing"));
  EXPECT_THAT(refused(trace({R"({"ph":"X","cat":"kernel","name":"k","ts":"now"})"})),
              EndsWith("event 0: \"ts\" must be a number of microseconds, not \"now\""));
  EXPECT_THAT(refused(trace({event("cpu_op", kAttend, 0, -1)})), HasSubstr("\"dur\" must be"));
  EXPECT_THAT(refused(trace({event("cpu_op", kAttend, 0, 1), event("cpu_op", kAttend, 1e12, 1)})),
              EndsWith("event 1: it is over two days after the first event"));
  EXPECT_EQ(refused(trace({"3", "[]", "{}", event("cpu_op", kAttend, 0, 1, ",\"args\":[4]")})), "");
}

}  // namespace
}  // namespace ringsched
