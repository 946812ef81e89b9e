#include "problem_flags.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <utility>

#include "content.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/as_run.hpp"
#include "text.hpp"
#include "usage_error.hpp"

namespace ringsched {

namespace {

std::uint32_t small_count(const std::string& text, const char* flag, std::uint32_t least = 1,
                          std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) {
  return static_cast<std::uint32_t>(number_of(text, flag, least, most));
}

}  // namespace

void ProblemFlags::flag(CLI::App& command, const char* name, std::string& value, const char* type,
                        const char* help) {
  options_.push_back(command.add_option(name, value, help)->type_name(type)->group("Problem"));
}

void ProblemFlags::refuse_beside(const std::string& plan_file) const {
  for (const CLI::Option* option : options_)
    if (option->count() > 0)
      fail("{} is a plan, which already has a problem; leave out {}", plan_file,
           option->get_name());
  expect_content(plan_file, Content::Plan);
}

void ProblemFlags::add_to(CLI::App& command) {
  const bool small = tokens_each_ == 1024;
  flag(command, "-s,--schedule", schedule_, "NAME",
       "schedule to use, e.g. zigzag or double-ring:node=4; see 'ringsched schedules' (default "
       "balanced)");
  flag(command, "-w,--workers", workers_, "N",
       small         ? "number of workers\n"
                       "default with several processes: one per process\n"
                       "default with one process: one per core, but at least 2 and at most 16; with "
                       "--backend cuda: 8"
       : on_machine_ ? "number of workers (default: one per device of the machine; "
                       "8 with --machine ideal)"
                     : "number of workers (default 8)");
  flag(command, "-t,--tokens", tokens_, "N",
       small ? "sequence length, e.g. 64K (default 1K per worker)"
             : "sequence length, e.g. 64K (default 8K per worker)");
  flag(command, "--heads", heads_, "N",
       small ? "query heads; for a batch, multiply this and --kv-heads by the number of sequences "
               "(default 8)"
             : "query heads; for a batch, multiply this and --kv-heads by the number of sequences "
               "(default 32)");
  add_shape_to(command);
  flag(command, "--overlap", overlap_, "MODE",
       "how far communication may run ahead of computation: none, prefetch (one step) or unbounded "
       "(default "
       "prefetch)");
  add_rest_of_communication_to(command);
}

void ProblemFlags::use_devices_of_machine() { on_machine_ = true; }

void ProblemFlags::use_small_problem() {
  tokens_each_ = 1024;
  heads_ = "8";
}

void ProblemFlags::add_rest_to(CLI::App& command) {
  add_shape_to(command);
  add_rest_of_communication_to(command);
}

void ProblemFlags::add_shape_to(CLI::App& command) {
  flag(command, "--kv-heads", kv_heads_, "N",
       "key/value heads (default 8, or the value of --heads if that is not a multiple of 8)");
  flag(command, "--head-dim", head_dim_, "N", "head dimension (default 128)");
  flag(command, "--dtype", dtype_, "TYPE", "bf16, fp16 or fp32 (default bf16)");
  flag(command, "--mask", mask_, "MASK",
       "causal; full; window:N (each token sees only the N most recent); prefix:P,window:N (each "
       "token "
       "also sees the first P); "
       "documents:A,B,... (lengths; without --tokens, there are as many tokens); or "
       "window:N,documents:A,B,... (default causal)");
  flag(command, "--pass", pass_, "PASS", "forward, backward or both (default forward)");
  flag(command, "--new-tokens", new_tokens_, "N",
       "for decoding: number of new tokens at the end of the sequence, or of each document; all "
       "earlier tokens are cached "
       "(default: 1 for decoding schedules; otherwise all tokens are new)");
}

void ProblemFlags::add_rest_of_communication_to(CLI::App& command) {
  flag(command, "--buffers", buffers_, "N",
       "number of receive buffers on each worker for each kind of tensor; 0 = as many as needed "
       "(default 0)");
  flag(command, "--exchanges", exchanges_, "HOW",
       "how to run exchanges, which are collectives such as all-to-all (default native)\n"
       "native: one library call\n"
       "direct: messages from each participating worker to every other\n"
       "ring, tree: messages along a ring or a tree");
}

ProblemFlags ProblemFlags::on(const Machine& machine) const {
  ProblemFlags other = *this;
  other.schedule_ = as_run(schedule_, machine.software);
  if (!machine.ideal)
    other.usual_workers_ = machine.devices() > 1
                               ? std::min(machine.devices(), kMaxWorkers)
                               : std::min(usual_workers_, machine.workers_per_device);
  return other;
}

ProblemFlags ProblemFlags::with(std::string schedule, std::string workers, std::string tokens,
                                std::string heads, std::string overlap) const {
  ProblemFlags other = *this;
  other.schedule_ = std::move(schedule);
  other.workers_ = std::move(workers);
  other.tokens_ = std::move(tokens);
  other.heads_ = std::move(heads);
  other.overlap_ = std::move(overlap);
  return other;
}

ProblemFlags ProblemFlags::with_usual_workers(std::uint32_t workers) const {
  ProblemFlags other = *this;
  other.usual_workers_ = workers;
  return other;
}

Problem ProblemFlags::problem() const {
  refuse_list("--schedule", schedule_);
  refuse_list("--workers", workers_);
  refuse_list("--tokens", tokens_);
  refuse_list("--heads", heads_);
  refuse_list("--overlap", overlap_);
  Problem p;
  p.workers =
      workers_.empty() ? usual_workers_ : small_count(workers_, "--workers", 1, kMaxWorkers);
  p.mask = parse_mask(mask_);
  p.tokens = {!tokens_.empty()                         ? parse_count(tokens_, "--tokens")
              : p.mask.kind() == Mask::Kind::Documents ? p.mask.document_bounds().back()
                                                       : tokens_each_ * std::int64_t{p.workers}};
  p.heads = small_count(heads_, "--heads", 1, kMaxHeads);
  p.kv_heads = !kv_heads_.empty() ? small_count(kv_heads_, "--kv-heads", 1, kMaxHeads)
               : p.heads % 8 == 0 ? 8
                                  : p.heads;
  p.head_dim = small_count(head_dim_, "--head-dim", 1, kMaxHeadDim);
  p.dtype = parse_dtype(dtype_);
  p.pass = parse_pass(pass_);
  if (!new_tokens_.empty()) {
    p.new_tokens = {parse_count(new_tokens_, "--new-tokens")};
    if (!p.decodes()) fail("--new-tokens is 0; use 1 or more");
  }
  require_valid(p, Naming::Flags);
  return p;
}

CommunicationLimits ProblemFlags::limits() const {
  return {parse_overlap(overlap_), small_count(buffers_, "--buffers", 0)};
}

}  // namespace ringsched
