// Attention by cuDNN, which is loaded at first use and may be absent.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "backends/cuda/device_calls.hpp"

namespace ringsched::cuda {

// How long making things of one kind took.
struct Spent {
  int count = 0;
  double seconds = 0;

  class Here {  // from now to the end of the block
   public:
    Here(Spent& spent, int count) : spent_(spent) { spent_.count += count; }
    ~Here() {
      spent_.seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    }
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;

   private:
    Spent& spent_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };
};

// cuDNN on one GPU. Its plans, by shape, are made once in the life of the process.
class Library {
 public:
  // On the current GPU.
  Library();
  // Without a GPU, for tests: one of this compute capability (90: 9.0) is described in cuDNN's own
  // JSON (tests/runtime/described_gpus.hpp), and cuDNN says what it would refuse there. With
  // `builds` it also builds the plans, for which the process needs a driver that accepts the code
  // of kernels.
  Library(const std::string& description, int capability, bool builds);
  ~Library();

  // Why it refuses a shape; empty: it accepts it, and its plan has been made.
  std::string refusal(const Shape&);
  // Whether it can be called on a stream.
  bool takes(cudaStream_t) const;
  // The largest workspace of the shapes it was asked about.
  std::int64_t workspace_bytes() const;
  // "9.19.0", or why it is missing.
  std::string version() const;
  // "8 handles of cuDNN in 0.2 s, 14 plans in 8.4 s": in the life of the process.
  std::string costs() const;

  // What one worker calls it with.
  class Caller {
   public:
    Caller(Library&, cudaStream_t, std::byte* workspace);
    ~Caller();
    // False: the call is not for the library.
    bool call(const DeviceCall&);

   private:
    void call(const LibraryForward&);
    void call(const LibraryBackward&);

    Library& library_;
    void* handle_ = nullptr;
    std::byte* const workspace_;
  };

 private:
  struct Plans;
  std::shared_ptr<Plans> plans_;
  std::set<Shape> asked_;
};

}  // namespace ringsched::cuda
