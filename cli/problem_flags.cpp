#include "problem_flags.hpp"

#include <CLI/CLI.hpp>
#include <limits>
#include <utility>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

std::uint32_t small_count(const std::string& text, const char* flag) {
  const std::int64_t n = parse_count(text, flag);
  if (n > std::numeric_limits<std::uint32_t>::max())
    fail("{} is {}, which is more than any machine has", flag, text);
  return static_cast<std::uint32_t>(n);
}

}  // namespace

void ProblemFlags::flag(CLI::App& command, const char* name, std::string& value, const char* type,
                        const char* help) {
  options_.push_back(command.add_option(name, value, help)->type_name(type));
}

void ProblemFlags::refuse_beside(const std::string& plan_file) const {
  for (const CLI::Option* option : options_)
    if (option->count() > 0)
      fail("{} says what the problem and its schedule are; leave out {}", plan_file,
           option->get_name());
}

void ProblemFlags::add_to(CLI::App& command) {
  flag(command, "-s,--schedule", schedule_, "NAME", "see ringsched schedules (balanced)");
  flag(command, "-w,--workers", workers_, "N", "devices that share the attention (8)");
  flag(command, "-t,--tokens", tokens_, "N",
       tokens_each_ == 8192 ? "in all, e.g. 64K (8K for each worker)"
                            : "in all, e.g. 64K (1K for each worker)");
  flag(command, "--heads", heads_, "N", heads_ == "32" ? "query heads (32)" : "query heads (8)");
  add_shape_to(command);
  flag(command, "--overlap", overlap_, "MODE",
       "how far communication runs ahead: none, prefetch\n(one step) or unbounded (prefetch)");
  add_buffers_to(command);
}

void ProblemFlags::use_small_problem() {
  tokens_each_ = 1024;
  heads_ = "8";
}

void ProblemFlags::add_rest_to(CLI::App& command) {
  add_shape_to(command);
  add_buffers_to(command);
}

void ProblemFlags::add_shape_to(CLI::App& command) {
  flag(command, "--kv-heads", kv_heads_, "N", "key and value heads (8, or as --heads)");
  flag(command, "--head-dim", head_dim_, "N", "(128)");
  flag(command, "--dtype", dtype_, "TYPE", "bf16, fp16 or fp32 (bf16)");
  flag(command, "--mask", mask_, "MASK",
       "causal, full, window:N, prefix:P,window:N or\ndocuments:A,B,... (causal)");
  flag(command, "--pass", pass_, "PASS", "forward, backward or both (forward)");
}

void ProblemFlags::add_buffers_to(CLI::App& command) {
  flag(command, "--buffers", buffers_, "N",
       "receive buffers per worker and tensor kind;\n0: as many as it takes (0)");
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

Problem ProblemFlags::problem() const {
  Problem p;
  p.workers = small_count(workers_, "--workers");
  p.tokens = {tokens_.empty() ? tokens_each_ * std::int64_t{p.workers}
                              : parse_count(tokens_, "--tokens")};
  p.heads = small_count(heads_, "--heads");
  p.kv_heads = !kv_heads_.empty() ? small_count(kv_heads_, "--kv-heads")
               : p.heads % 8 == 0 ? 8
                                  : p.heads;
  p.head_dim = small_count(head_dim_, "--head-dim");
  p.dtype = parse_dtype(dtype_);
  p.mask = parse_mask(mask_);
  p.pass = parse_pass(pass_);
  check(p);
  return p;
}

CommunicationLimits ProblemFlags::limits() const {
  return {parse_overlap(overlap_), small_count(buffers_, "--buffers")};
}

}  // namespace ringsched
