#include "jobs.hpp"

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>

#include "ringsched/scheduler/stop.hpp"

namespace ringsched {

void run_jobs(std::uint32_t threads, std::span<const CheckJob> jobs, Findings& findings) {
  std::vector<Findings> found(jobs.size(), findings.fresh());
  std::vector<std::exception_ptr> failed(jobs.size());
  std::atomic<std::size_t> taken = 0;
  const auto work = [&, flag = stop_flag()] {
    const StopWhen asked(flag);
    for (std::size_t n; (n = ++taken) <= jobs.size();) {
      const std::size_t j = jobs.size() - n;
      try {
        stop_here();
        jobs[j](found[j]);
      } catch (...) {
        failed[j] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      while (helpers.size() + 1 < threads && helpers.size() + 1 < jobs.size())
        helpers.emplace_back(work);
    } catch (const std::system_error&) {  // the system has no more threads: then it takes longer
    }
    work();
  }
  for (const std::exception_ptr& f : failed)
    if (f) std::rethrow_exception(f);
  for (Findings& f : found) findings.append(std::move(f));
}

std::vector<CheckJob> jobs_over_tasks(
    const Plan& plan, std::uint32_t threads,
    const std::function<void(std::uint32_t first, std::uint32_t end, Findings&)>& look_at) {
  // Some for each thread: other programs may hold one of them up.
  const std::uint32_t ranges = threads > 1 ? 4 * threads : 1;
  std::vector<CheckJob> jobs;
  for (std::uint64_t r = 0; r < ranges; ++r) {
    const auto first = static_cast<std::uint32_t>(r * plan.tasks.size() / ranges);
    const auto end = static_cast<std::uint32_t>((r + 1) * plan.tasks.size() / ranges);
    jobs.emplace_back([=](Findings& found) { look_at(first, end, found); });
  }
  return jobs;
}

}  // namespace ringsched
