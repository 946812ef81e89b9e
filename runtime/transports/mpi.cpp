// Workers in several processes, perhaps on several machines: messages through MPI, by a dedicated
// thread, so that they move while the workers compute. It is a module, loaded on request: the
// program itself needs no MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "clock_fit.hpp"
#include "message_numbers.hpp"
#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/words.hpp"
#include "transports/local.hpp"
#include "transports/mpi_collectives.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;  // of one MPI message: counts are ints

class MpiTransport final : public Transport {
 public:
  // Together with the others if there are `collectives`.
  MpiTransport(const Plan& plan, Control& control, const World& world, bool collectives)
      : plan_(plan), control_(control), world_(world), local_(plan, control) {
    if (collectives) collectives_ = std::make_unique<MpiCollectives>(plan, world);
    try {
      thread_ = std::thread([this] { progress(); });
    } catch (const std::system_error& wrong) {
      throw RunFailed(fmt::format("cannot start a thread for messages: {}", wrong.what()));
    }
  }
  ~MpiTransport() override {
    {
      const std::lock_guard lock(guard_);
      ends_ = true;
    }
    news_.notify_all();
    thread_.join();
    if (collectives_ && !control_.stopped()) collectives_->free();
  }

  void begin_run() override { local_.begin_run(); }

  void exchange(Device& device, WorkerId worker, Lane lane, std::vector<MessageEnd> all) override {
    auto group = std::make_shared<Group>();
    for (MessageEnd& m : all) (is_here(m.peer) ? group->here : group->elsewhere).push_back(m);
    device.call(lane, [this, worker, group] {
      if (!group->elsewhere.empty()) post(*group);
      if (!group->here.empty()) local_.exchange_now(worker, group->here);
      if (group->elsewhere.empty()) return;
      std::unique_lock lock(guard_);
      wait_until(control_, group->complete, lock, [&] { return group->open == 0; });
    });
  }

  void exchange_as_member(Device& device, WorkerId worker, Lane lane,
                          ExchangeMember& member) override {
    const ExchangeId exchange = plan_.tasks[member.task().value].exchange;
    const MpiCall call = collectives_ ? collectives_->call(exchange) : MpiCall::Messages;
    if (call == MpiCall::Messages)
      return Transport::exchange_as_member(device, worker, lane, member);
    auto group = std::make_shared<Group>();
    group->member = &member;
    device.call(lane, [this, group, &member, call] {
      member.gather();
      post(*group);
      {
        std::unique_lock lock(guard_);
        wait_until(control_, group->complete, lock, [&] { return group->open == 0; });
      }
      for (const MessageEnd& m : member.messages()) m.complete();
      if (call != MpiCall::ReduceScatter) member.put_together();
    });
  }

  std::string exchanges() const override {
    if (collectives_ || plan_.exchanges.empty()) return collectives_ ? collectives_->words() : "";
    return counted(static_cast<std::int64_t>(plan_.exchanges.size()), "exchange") + " by messages";
  }

 private:
  struct Group {
    std::vector<MessageEnd> here, elsewhere;
    const ExchangeMember* member = nullptr;  // of an exchange that is one collective
    std::vector<int> left;  // of the thread: the requests of each message that are not complete
    std::size_t open = 0;   // all of those; guarded
    std::condition_variable complete;
  };

  struct Part {  // what one request carries: a message, or some of it, or of a collective
    Group* group;
    std::size_t message;
  };

  bool is_here(WorkerId w) const {
    return world_.rank_of(w, plan_.problem.workers) == world_.rank();
  }

  void post(Group& group) {
    {
      const std::lock_guard lock(guard_);
      group.open = 1;  // until its requests are counted
      posted_.push_back(&group);
    }
    news_.notify_all();
  }

  void progress() {
    try {
      while (true) {
        std::vector<Group*> fresh;
        {
          std::unique_lock lock(guard_);
          if (requests_.empty()) news_.wait(lock, [&] { return ends_ || !posted_.empty(); });
          if (ends_) return;
          fresh.assign(posted_.begin(), posted_.end());
          posted_.clear();
        }
        for (Group* g : fresh) start(*g);
        if (control_.stopped()) return;
        if (!complete_some()) std::this_thread::sleep_for(20us);
      }
    } catch (const std::exception& e) {
      control_.stop(e.what());
    }
  }

  void start(Group& group) {
    std::size_t started = 0;
    group.left.assign(group.elsewhere.size(), 0);
    const auto each = [&](bool sends) {
      for (std::size_t i = 0; i < group.elsewhere.size(); ++i)
        if (group.elsewhere[i].sends == sends) started += start(group, i);
    };
    each(false);
    each(true);
    if (group.member) {
      collectives_->start(*group.member, requests_);
      for (; parts_.size() < requests_.size(); ++started) parts_.push_back({&group, 0});
    }
    const std::lock_guard lock(guard_);
    group.open += started - 1;
    if (group.open == 0) group.complete.notify_all();
  }

  std::size_t start(Group& group, std::size_t message) {
    const MessageEnd& m = group.elsewhere[message];
    const int peer = static_cast<int>(world_.rank_of(m.peer, plan_.problem.workers));
    const int tag = static_cast<int>(m.number);
    std::size_t started = 0;
    for (std::size_t i = 0; i < m.piece.size(); ++i)
      for (std::int64_t at = 0; at < m.bytes[i]; at += kMostBytes) {
        const int bytes = static_cast<int>(std::min(kMostBytes, m.bytes[i] - at));
        MPI_Request request;
        require_success(
            m.sends
                ? MPI_Isend(m.piece[i] + at, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request)
                : MPI_Irecv(m.piece[i] + at, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request),
            m.sends ? "MPI_Isend" : "MPI_Irecv");
        requests_.push_back(request);
        parts_.push_back({&group, message});
        ++started;
      }
    group.left[message] = static_cast<int>(started);
    if (started == 0) m.complete();
    return started;
  }

  bool complete_some() {
    if (requests_.empty()) return false;
    std::vector<int> done(requests_.size());
    int count = 0;
    require_success(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                 done.data(), MPI_STATUSES_IGNORE),
                    "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return false;
    {
      const std::lock_guard lock(guard_);
      for (int i = 0; i < count; ++i) {
        const Part& part = parts_[static_cast<std::size_t>(done[static_cast<std::size_t>(i)])];
        Group& group = *part.group;
        if (!group.member && --group.left[part.message] == 0)
          group.elsewhere[part.message].complete();
        if (--group.open == 0) group.complete.notify_all();
      }
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      parts_[kept++] = parts_[i];
    }
    requests_.resize(kept);
    parts_.resize(kept);
    return true;
  }

  const Plan& plan_;
  Control& control_;
  const World& world_;
  LocalTransport local_;
  std::unique_ptr<MpiCollectives> collectives_;  // null: messages only
  std::thread thread_;
  std::vector<MPI_Request> requests_;  // of the thread, as is what follows
  std::vector<Part> parts_;            // what they carry

  std::mutex guard_;
  std::condition_variable news_;
  std::deque<Group*> posted_;
  bool ends_ = false;
};

class MpiWorld final : public World {
 public:
  MpiWorld() {
    // Open MPI writes to sockets of dead processes; that signal must not end this process.
    std::signal(SIGPIPE, SIG_IGN);
    int level = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS ||
        level < MPI_THREAD_SERIALIZED)
      throw RunFailed("this MPI does not support several threads (MPI_THREAD_MULTIPLE)");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    rank_ = static_cast<std::uint32_t>(number);
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    size_ = static_cast<std::uint32_t>(number);
  }
  ~MpiWorld() override { MPI_Finalize(); }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return size_; }
  std::string name() const override { return "mpi"; }

  std::vector<std::string> gather(const std::string& text) override {
    const auto length = static_cast<int>(text.size());
    std::vector<int> lengths(size_), first(size_, 0);
    require_success(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD),
                    "MPI_Allgather");
    std::int64_t total = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      first[r] = static_cast<int>(total);
      total += lengths[r];
      if (lengths[r] < 0 || total > std::numeric_limits<int>::max())
        throw RunFailed("the processes exchange more than 2 GiB at once");
    }
    std::string all(static_cast<std::size_t>(total), '\0');
    require_success(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(),
                                   first.data(), MPI_CHAR, MPI_COMM_WORLD),
                    "MPI_Allgatherv");
    std::vector<std::string> out;
    for (std::size_t r = 0; r < size_; ++r)
      out.push_back(
          all.substr(static_cast<std::size_t>(first[r]), static_cast<std::size_t>(lengths[r])));
    return out;
  }

  // Processes that share the clock of rank 0 need not ask. The others do, in turn.
  ClockReading read_clock() override {
    constexpr int tag = 0;
    const std::vector<std::string> clocks = gather(name_of_clock());
    ClockReading out{steady_now(), 0, 0};
    for (std::uint32_t r = 1; r < size_; ++r) {
      if (!clocks[r].empty() && clocks[r] == clocks[0]) continue;
      ClockFit fit;
      for (int i = 0; i < kClockQuestions; ++i) {
        long long time = 0;
        if (rank_ == 0) {
          require_success(MPI_Recv(&time, 1, MPI_LONG_LONG, static_cast<int>(r), tag,
                                   MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                          "MPI_Recv");
          time = steady_now();
          require_success(
              MPI_Send(&time, 1, MPI_LONG_LONG, static_cast<int>(r), tag, MPI_COMM_WORLD),
              "MPI_Send");
        } else if (rank_ == r) {
          const std::int64_t asked = steady_now();
          require_success(MPI_Send(&time, 1, MPI_LONG_LONG, 0, tag, MPI_COMM_WORLD), "MPI_Send");
          require_success(
              MPI_Recv(&time, 1, MPI_LONG_LONG, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              "MPI_Recv");
          fit.add(asked, time, steady_now());
        }
      }
      if (rank_ == r) out = fit.reading();
    }
    return out;
  }

  // MPI processes cannot meet if one is missing: each has only its own remains.
  std::vector<std::optional<LastWords>> last_words(const LastWords& own) override {
    std::vector<std::optional<LastWords>> out(size_);
    out[rank_] = own;
    return out;
  }

  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }
  void use_messages_only() override { collectives_ = false; }

  std::unique_ptr<Transport> transport(const Plan& plan, Control& control) override {
    void* most = nullptr;
    int known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
    const std::uint32_t needs = MessageNumbers(plan).end();
    if (const int has = known != 0 ? *static_cast<int*>(most) : std::numeric_limits<int>::max();
        needs > static_cast<std::uint32_t>(has))
      throw RunFailed(
          fmt::format("the tasks and exchanges of the plan need {} message tags, but this MPI has "
                      "only {}",
                      needs, has));
    return std::make_unique<MpiTransport>(plan, control, *this, collectives_);
  }

 private:
  std::uint32_t rank_ = 0, size_ = 1;
  bool collectives_ = true;
};

}  // namespace

}  // namespace ringsched

extern "C" ringsched::World* ringsched_make_mpi_world() { return new ringsched::MpiWorld; }

// Open MPI can do so only if it was built for one particular Slurm, and no more from version 5 on.
extern "C" bool ringsched_mpi_speaks_pmi() {
#ifdef OPEN_MPI
  return false;
#else
  return true;
#endif
}
