// The rules of the emulated NCCL: two ranks in one process, a GPU each.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

extern "C" void emulated_cuda_faults(const char*);

namespace {

const int two_gpus = ::setenv("RINGSCHED_EMULATED_GPUS", "2", 1);

constexpr std::size_t kBytes = 64;
constexpr int kPatience = 2000;  // how often it is asked whether something is done

void ok(cudaError_t e) { ASSERT_EQ(e, cudaSuccess) << cudaGetErrorString(e); }

struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr, other = nullptr;
  char *from = nullptr, *to = nullptr;
};

class EmulatedNccl : public testing::Test {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "fast";
    for (int r = 0; r < 2; ++r) {
      ok(cudaSetDevice(r));
      Rank& own = ranks_[static_cast<std::size_t>(r)];
      ok(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking));
      ok(cudaStreamCreateWithFlags(&own.other, cudaStreamNonBlocking));
      for (char** p : {&own.from, &own.to}) {
        ok(cudaMalloc(p, kBytes));
        ok(cudaMemset(*p, p == &own.from ? 'a' + r : 0, kBytes));
      }
      ok(cudaDeviceSynchronize());
    }
    join(0, 1);
  }
  void TearDown() override {
    emulated_cuda_faults("");
    for (Rank& r : ranks_) abort(r);
  }

  // Both make a communicator of the two, each on its GPU.
  void join(int gpu_of_0, int gpu_of_1) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int r = 0; r < 2; ++r) {
      ok(cudaSetDevice(r == 0 ? gpu_of_0 : gpu_of_1));
      EXPECT_EQ(
          ncclCommInitRankConfig(&ranks_[static_cast<std::size_t>(r)].comm, 2, id, r, &config),
          ncclInProgress);
    }
    settle();
  }
  static void abort(Rank& r) {
    if (r.comm) {
      EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
    }
  }
  static ncclResult_t state(const Rank& r) {
    ncclResult_t out = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(r.comm, &out), ncclSuccess);
    return out;
  }
  // Until no call of either is under way.
  void settle() {
    for (int i = 0; i < kPatience; ++i)
      if ((state(ranks_[0]) != ncclInProgress) & (state(ranks_[1]) != ncclInProgress)) return;
    FAIL() << "a call does not end";
  }
  // Whether both GPUs have done all that they can do, and that is everything.
  bool everything_is_done() {
    bool done = false;
    for (int i = 0; i < kPatience && !done; ++i)
      done = (cudaStreamQuery(ranks_[0].stream) == cudaSuccess) &
             (cudaStreamQuery(ranks_[1].stream) == cudaSuccess);
    return done;
  }
  void send(int rank, std::size_t bytes = kBytes) {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    ncclSend(r.from, bytes, ncclInt8, 1 - rank, r.comm, r.stream);
  }
  void receive(int rank, std::size_t bytes = kBytes) {
    const Rank& r = ranks_[static_cast<std::size_t>(rank)];
    ncclRecv(r.to, bytes, ncclInt8, 1 - rank, r.comm, r.stream);
  }
  char received(int rank) {
    char out[kBytes];
    ok(cudaSetDevice(rank));
    ok(cudaMemcpy(out, ranks_[static_cast<std::size_t>(rank)].to, kBytes, cudaMemcpyDeviceToHost));
    return out[kBytes - 1];
  }
  static void finds(const std::function<void()>& wrong, const char* said) {
    EXPECT_EXIT(
        {
          wrong();
          std::_Exit(0);
        },
        testing::ExitedWithCode(70), said);
  }

  std::array<Rank, 2> ranks_;
};

TEST_F(EmulatedNccl, MessagesOfAGroupMoveAtOnce) {
  for (const int r : {0, 1}) {
    ncclGroupStart();
    receive(r);
    send(r);
    ncclGroupEnd();
  }
  settle();
  EXPECT_TRUE(everything_is_done());
  EXPECT_EQ(received(0), 'b');
  EXPECT_EQ(received(1), 'a');
}

TEST_F(EmulatedNccl, AnotherOrderWaitsForEverAndAnAbortEndsIt) {
  for (const int r : {0, 1}) {
    receive(r);
    settle();
    send(r);
    settle();
  }
  EXPECT_FALSE(everything_is_done());
  for (Rank& r : ranks_) abort(r);
  EXPECT_TRUE(everything_is_done());
}

// Also on streams that do not wait for each other.
TEST_F(EmulatedNccl, OperationsOfACommunicatorFollowEachOther) {
  receive(0);
  settle();
  ncclSend(ranks_[0].from, 1, ncclInt8, 1, ranks_[0].comm, ranks_[0].other);
  settle();
  ncclRecv(ranks_[1].to, 1, ncclInt8, 0, ranks_[1].comm, ranks_[1].stream);
  settle();
  EXPECT_FALSE(everything_is_done());
  ncclSend(ranks_[1].from, kBytes, ncclInt8, 0, ranks_[1].comm, ranks_[1].other);
  settle();
  EXPECT_FALSE(everything_is_done());
}

TEST_F(EmulatedNccl, NothingIsOnTheStreamBeforeNcclSaysSo) {
  finds(
      [&] {
        for (int i = 0; i < 20; ++i) {  // now and then it is at once
          send(0);
          ok(cudaSetDevice(0));
          ok(cudaMemsetAsync(ranks_[0].from, 0, kBytes, ranks_[0].stream));
          receive(1);
          settle();
          everything_is_done();
        }
        ok(cudaSetDevice(0));
        ok(cudaMemsetAsync(ranks_[0].to, 0, kBytes, ranks_[0].stream));
        receive(0);
        ok(cudaMemsetAsync(ranks_[0].to, 0, kBytes, ranks_[0].other));
        send(1);
        settle();
        everything_is_done();
      },
      "nothing orders");
}

TEST_F(EmulatedNccl, ACallWhileAnotherIsUnderWayIsRefused) {
  send(0);
  EXPECT_EQ(ncclSend(ranks_[0].from, 1, ncclInt8, 1, ranks_[0].comm, ranks_[0].stream),
            ncclInvalidArgument);
}

TEST_F(EmulatedNccl, AnotherSizeIsFound) {
  finds(
      [&] {
        send(0);
        receive(1, kBytes - 1);
        settle();
        everything_is_done();
      },
      "rank 1 wants 63 bytes from rank 0, which sends 64");
}

TEST_F(EmulatedNccl, MemoryThatIsNotThereIsFound) {
  finds(
      [&] {
        send(0, kBytes + 1);
        settle();
        everything_is_done();
      },
      "not allocated");
  finds([&] { ncclCommRegister(ranks_[0].comm, ranks_[0].from, kBytes + 1, nullptr); },
        "memory is registered that is not all on the communicator's GPU");
  finds(
      [&] {
        void* handle = nullptr;
        ncclCommRegister(ranks_[0].comm, ranks_[0].from, kBytes, &handle);
        cudaFree(ranks_[0].from);
        ncclCommDeregister(ranks_[0].comm, handle);
      },
      "freed before it was deregistered");
}

TEST_F(EmulatedNccl, ACommunicatorThatIsAbortedIsGone) {
  finds(
      [&] {
        ncclCommAbort(ranks_[0].comm);
        state(ranks_[0]);
      },
      "not there");
}

// The stream of one is behind another.
TEST_F(EmulatedNccl, SeveralAreAbortedAsAGroup) {
  Rank first = ranks_[0], second = ranks_[1];
  join(0, 1);
  ncclRecv(first.to, 1, ncclInt8, 1, first.comm, ranks_[0].stream);
  while (state(first) == ncclInProgress) {
  }
  receive(0);
  settle();
  ncclGroupStart();
  abort(ranks_[0]);
  abort(first);
  ncclGroupEnd();
  abort(second);
  EXPECT_TRUE(everything_is_done());
}

TEST_F(EmulatedNccl, TwoRanksCannotHaveOneGpu) {
  for (Rank& r : ranks_) abort(r);
  join(1, 1);
  for (const Rank& r : ranks_) {
    EXPECT_EQ(state(r), ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(r.comm),
                 "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1 of this host");
  }
}

TEST_F(EmulatedNccl, ALeaveIsTakenTogether) {
  EXPECT_EQ(ncclCommFinalize(ranks_[0].comm), ncclInProgress);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(state(ranks_[0]), ncclInProgress);
  EXPECT_EQ(ncclCommFinalize(ranks_[1].comm), ncclInProgress);
  settle();
  for (Rank& r : ranks_) EXPECT_EQ(ncclCommDestroy(std::exchange(r.comm, nullptr)), ncclSuccess);
}

TEST_F(EmulatedNccl, ErrorsAreThoseThatATestAskedFor) {
  emulated_cuda_faults("ncclSend#2=3,later:ncclRecv#1=6");
  ncclGroupStart();
  send(0);
  EXPECT_EQ(ncclSend(ranks_[0].from, 1, ncclInt8, 1, ranks_[0].comm, ranks_[0].stream),
            ncclInternalError);
  ncclGroupEnd();
  receive(1);
  settle();
  everything_is_done();
  EXPECT_EQ(state(ranks_[1]), ncclRemoteError);
}

// In half of the cases; which they are depends on the seed.
TEST_F(EmulatedNccl, ThatARankIsGoneIsSeenOrNot) {
  bool seen = false, unseen = false;
  for (int i = 0; i < 30 && !(seen && unseen); ++i) {
    receive(0);
    settle();
    abort(ranks_[1]);
    everything_is_done();
    (state(ranks_[0]) == ncclRemoteError ? seen : unseen) = true;
    abort(ranks_[0]);
    join(0, 1);
  }
  EXPECT_TRUE(seen);
  EXPECT_TRUE(unseen);
}

}  // namespace
