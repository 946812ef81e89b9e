// The rules of the emulated CUDA runtime: what it does, what it refuses, and what it finds.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

void launch_add_one(float* x, int count, cudaStream_t);
void launch_add_one_to_all(float* x, unsigned blocks, cudaStream_t);
void launch_reverse(float* x, bool waits);
void launch_swap(float* x, unsigned mask);
void launch_some_wait(float* x);
void launch_as_words(void* x);
extern "C" void emulated_cuda_faults(const char*);
extern "C" void emulated_cuda_spoil(bool inputs);

namespace {

const int two_gpus = ::setenv("RINGSCHED_EMULATED_GPUS", "2", 1);

constexpr int kCount = 100;

class EmulatedCuda : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "fast";
    cudaSetDevice(0);
    for (cudaStream_t& s : streams_) ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (cudaEvent_t& e : events_) ok(cudaEventCreateWithFlags(&e, cudaEventDefault));
    x_ = make();
  }
  void TearDown() override { emulated_cuda_faults(""); }

  static void ok(cudaError_t e) { ASSERT_EQ(e, cudaSuccess) << cudaGetErrorString(e); }
  static float* make() {
    void* p = nullptr;
    ok(cudaMalloc(&p, kCount * sizeof(float)));
    ok(cudaMemset(p, 0, kCount * sizeof(float)));
    ok(cudaDeviceSynchronize());
    return static_cast<float*>(p);
  }
  static std::vector<float> read(const float* p) {
    std::vector<float> out(kCount);
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(out.data(), p, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    return out;
  }
  static void finds(const std::function<void()>& wrong, const char* said) {
    EXPECT_EXIT(
        {
          wrong();
          cudaDeviceSynchronize();
        },
        testing::ExitedWithCode(70), said);
  }

  cudaStream_t streams_[2] = {};
  cudaEvent_t events_[2] = {};
  float* x_ = nullptr;
};

TEST_F(EmulatedCuda, StreamsThatWaitForEachOtherAreOrdered) {
  launch_add_one(x_, kCount, streams_[0]);
  ok(cudaEventRecord(events_[0], streams_[0]));
  ok(cudaStreamWaitEvent(streams_[1], events_[0], 0));
  launch_add_one(x_, kCount, streams_[1]);
  for (const float x : read(x_)) EXPECT_EQ(x, 2);
}

TEST_F(EmulatedCuda, StreamsThatNothingOrdersAreFound) {
  finds(
      [&] {
        launch_add_one(x_, kCount, streams_[0]);
        launch_add_one(x_, kCount, streams_[1]);
      },
      "nothing orders 'add_one");
  finds(
      [&] {
        ok(cudaEventRecord(events_[0], streams_[0]));
        launch_add_one(x_, kCount, streams_[0]);
        ok(cudaStreamWaitEvent(streams_[1], events_[0], 0));
        launch_add_one(x_, kCount, streams_[1]);
      },
      "nothing orders");
  finds(
      [&] {
        ok(cudaMemset(x_, 0, 4));
        launch_add_one(x_, kCount, streams_[1]);
      },
      "nothing orders");
}

TEST_F(EmulatedCuda, TimesAreTakenBetweenEventsThatAreOrdered) {
  float ms = 0;
  ok(cudaEventRecord(events_[0], streams_[0]));
  launch_add_one(x_, kCount, streams_[0]);
  ok(cudaEventRecord(events_[1], streams_[0]));
  ok(cudaDeviceSynchronize());
  ok(cudaEventElapsedTime(&ms, events_[0], events_[1]));
  EXPECT_GT(ms, 0);
  finds([&] { cudaEventElapsedTime(&ms, events_[1], events_[0]); }, "nothing orders after it");
  finds(
      [&] {
        cudaEventRecord(events_[1], streams_[1]);
        cudaEventRecord(events_[0], streams_[0]);
        cudaDeviceSynchronize();
        cudaEventElapsedTime(&ms, events_[1], events_[0]);
      },
      "nothing orders after it");
}

// So that the next run cannot do with what this one made.
TEST_F(EmulatedCuda, WhatKernelsMadeIsSpoiltAndWhatTheHostWroteIsNot) {
  float* const y = make();
  launch_add_one(x_, kCount, streams_[0]);
  emulated_cuda_spoil(false);
  EXPECT_TRUE(std::isnan(read(x_)[kCount - 1]));
  EXPECT_EQ(read(y)[kCount - 1], 0);
}

TEST_F(EmulatedCuda, MemoryHasBoundsAndAnEnd) {
  finds([&] { launch_add_one_to_all(x_, 2, streams_[0]); },
        "not allocated: from byte [45][0-9]+ of 400");
  finds(
      [&] {
        cudaFree(x_);
        launch_add_one(x_, kCount, streams_[0]);
      },
      "which was freed");
  std::vector<float> host(kCount);
  finds([&] { launch_add_one(host.data(), kCount, streams_[0]); }, "not allocated");
  finds([&] { launch_as_words(x_ + 1); }, "not aligned");
}

TEST_F(EmulatedCuda, AnotherGpuIsReachedOnceThatIsAllowed) {
  ok(cudaSetDevice(1));
  float* const there = make();
  EXPECT_EQ(cudaEventRecord(events_[0], nullptr), cudaErrorInvalidResourceHandle);
  launch_add_one(there, kCount, streams_[0]);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  ok(cudaSetDevice(0));
  finds([&] { launch_add_one(there, kCount, streams_[0]); }, "cannot reach");
  EXPECT_EQ(cudaMemcpyPeerAsync(x_, 1, there, 0, 4, streams_[0]), cudaErrorInvalidValue);
  ok(cudaMemcpyPeerAsync(x_, 0, there, 1, 4, streams_[0]));
  ok(cudaDeviceSynchronize());
  ok(cudaDeviceEnablePeerAccess(1, 0));
  launch_add_one(there, kCount, streams_[0]);
  EXPECT_EQ(read(there)[0], 1);
}

TEST_F(EmulatedCuda, WhatTheHostFreesIsCopiedTooLate) {
  int wrong = 0;
  for (int i = 0; i < 40; ++i) {
    {
      const std::vector<float> host(kCount, 7.0f);
      ok(cudaMemcpyAsync(x_, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice,
                         streams_[0]));
    }
    wrong += read(x_)[kCount / 2] != 7;
  }
  EXPECT_GT(wrong, 10);
}

TEST_F(EmulatedCuda, LanesWaitForThoseOfTheirMask) {
  launch_swap(x_, 0xff);
  ok(cudaDeviceSynchronize());
  finds([&] { launch_swap(x_, 0xffffffff); }, "waits for lane .* which has ended");
  finds([&] { launch_swap(x_, 0x0f); }, "not in its own mask");
}

TEST_F(EmulatedCuda, ABlockNeedsItsBarriers) {
  std::vector<float> numbers(kCount);
  for (int i = 0; i < kCount; ++i) numbers[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (const bool waits : {true, false}) {
    ok(cudaMemcpy(x_, numbers.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    launch_reverse(x_, waits);
    const std::vector<float> out = read(x_);
    bool right = true;
    for (std::size_t i = 0; i < 64; ++i) right = right && out[i] == static_cast<float>(63 - i);
    EXPECT_EQ(right, waits);
  }
  finds([&] { launch_some_wait(x_); }, "have ended and others wait");
}

TEST_F(EmulatedCuda, CapturesRefuseWhatCudaRefuses) {
  cudaGraph_t graph = nullptr;
  void* p = nullptr;
  const auto begin = [&] {
    ok(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal));
  };
  begin();
  EXPECT_EQ(cudaMalloc(&p, 8), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  ok(cudaEventRecord(events_[1], streams_[1]));
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(streams_[0], events_[1], 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  ok(cudaEventRecord(events_[0], streams_[0]));
  ok(cudaStreamWaitEvent(streams_[1], events_[0], 0));
  launch_add_one(x_, kCount, streams_[1]);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(EmulatedCuda, AGraphDoesItsNodesInTheirOrder) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ok(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal));
  launch_add_one(x_, kCount, streams_[0]);
  ok(cudaEventRecord(events_[0], streams_[0]));
  ok(cudaStreamWaitEvent(streams_[1], events_[0], 0));
  launch_add_one(x_, kCount, streams_[1]);
  ok(cudaEventRecord(events_[1], streams_[1]));
  ok(cudaStreamWaitEvent(streams_[0], events_[1], 0));
  ok(cudaStreamEndCapture(streams_[0], &graph));
  EXPECT_EQ(read(x_)[0], 0);
  ok(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) ok(cudaGraphLaunch(exec, streams_[0]));
  for (const float x : read(x_)) EXPECT_EQ(x, 6);
  ok(cudaGraphExecDestroy(exec));
  ok(cudaGraphDestroy(graph));
}

TEST_F(EmulatedCuda, ErrorsComeWhenTheyAreAskedFor) {
  emulated_cuda_faults("cudaMemset#2=2");
  ok(cudaMemset(x_, 0, 4));
  EXPECT_EQ(cudaMemset(x_, 0, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ok(cudaDeviceSynchronize());
  emulated_cuda_faults("later:cudaLaunchKernel#1=700");
  launch_add_one(x_, kCount, streams_[0]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorIllegalAddress);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 8), cudaErrorIllegalAddress) << "it stays";
}

TEST_F(EmulatedCuda, FunctionsOfTheHostComeInTheirTurnAndCallNothingOfCuda) {
  static std::vector<int> order;
  order.clear();
  for (int i = 0; i < 3; ++i)
    ok(cudaLaunchHostFunc(
        streams_[0],
        [](void* n) { order.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(n))); },
        reinterpret_cast<void*>(static_cast<std::intptr_t>(i))));
  ok(cudaStreamSynchronize(streams_[0]));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  finds(
      [&] {
        cudaLaunchHostFunc(
            streams_[0], [](void*) { cudaDeviceSynchronize(); }, nullptr);
      },
      "is called by work on a stream");
}

}  // namespace
