#include "transports/mpi_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostCommunicators = 256;  // some MPIs have room for 2000
constexpr std::int64_t kMostOfMember =
    std::numeric_limits<int>::max();  // of a member: MPI counts in ints

const Task& member(const Plan& plan, const Exchange& e, std::uint32_t number) {
  return plan.tasks[e.first.value + number];
}

std::vector<std::uint32_t> workers_of(const Plan& plan, const Exchange& e) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t m = 0; m < e.members; ++m) out.push_back(member(plan, e, m).worker_index);
  return out;
}

// Does each giver have the sums in the order in which the members want them, contiguously?
bool is_in_order(const std::vector<Share>& shares) {
  std::map<std::uint32_t, std::uint32_t> end;  // by giver: of the last rows seen
  for (const Share& s : shares) {              // in the order of those that get them
    const auto [known, is_first] = end.try_emplace(s.from, s.rows.end());
    if (!is_first && known->second != s.rows.first.value) return false;
    known->second = s.rows.end();
  }
  return true;
}

MpiCall call_for(const Plan& plan, const World& world, const Exchange& e,
                 const std::vector<Share>& shares) {
  std::set<std::uint32_t> ranks;
  for (const std::uint32_t w : workers_of(plan, e))
    if (!ranks.insert(world.rank_of({w}, plan.problem.workers)).second) return MpiCall::Messages;
  const ValueId value = plan.value(member(plan, e, 0));
  std::vector<std::int64_t> given(e.members), got(e.members);
  for (const Share& s : shares) {
    const Bytes bytes = plan.program.bytes(value, plan.layout.rows(s.rows), s.columns.count);
    given[s.from] += bytes.value;
    got[s.to] += bytes.value;
  }
  if (ranks.size() < 2 || std::max(std::ranges::max(given), std::ranges::max(got)) > kMostOfMember)
    return MpiCall::Messages;
  const auto is_run = [&](const Share& s) { return is_run_at_getter(plan, e, s); };
  const bool runs = std::ranges::all_of(shares, is_run);
  const ExchangeForm form = form_of(plan, e);
  if (form == ExchangeForm::AllGather && runs && !adds_up(plan, e)) return MpiCall::Allgatherv;
  if (form == ExchangeForm::ReduceScatter && runs && is_in_order(shares) &&
      plan.program.type(value).algebra != Algebra::Softmax &&
      std::ranges::all_of(shares, [&](const Share& s) { return is_run_at_giver(plan, e, s); }))
    return MpiCall::ReduceScatter;
  return MpiCall::Alltoallw;
}

}  // namespace

void require_success(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw RunFailed(fmt::format("{}: {}", what, std::string(text, static_cast<std::size_t>(length))));
}

// The arguments of calls, by the rank in the communicator, which is the number of the member.
struct MpiCollectives::Prepared {
  explicit Prepared(std::uint32_t members)
      : zeros(members), sends(members), receives(members), byte(members, MPI_BYTE) {}
  ~Prepared() {
    for (MPI_Datatype& t : made) MPI_Type_free(&t);
  }

  MPI_Datatype type_of(const std::vector<const MessageEnd*>& messages) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    for (const MessageEnd* m : messages)
      for (std::size_t i = 0; i < m->piece.size(); ++i) {
        if (m->bytes[i] == 0) continue;
        lengths.push_back(static_cast<int>(m->bytes[i]));
        MPI_Get_address(m->piece[i], &places.emplace_back());
      }
    MPI_Datatype type = MPI_BYTE;
    require_success(MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(),
                                             places.data(), MPI_BYTE, &type),
                    "MPI_Type_create_hindexed");
    made.push_back(type);
    require_success(MPI_Type_commit(&made.back()), "MPI_Type_commit");
    return made.back();
  }

  // Of one matrix.
  struct Matrix {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::vector<int> counts, first;
  };
  std::vector<int> zeros, sends, receives;
  std::vector<MPI_Datatype> byte, send_types = byte, receive_types = byte, made;
  std::vector<Matrix> matrices;
};

MpiCollectives::MpiCollectives(const Plan& plan, const World& world)
    : plan_(plan), world_(world), numbers_(plan) {
  for (std::uint32_t e = 0; e < plan.exchanges.size(); ++e)
    calls_.push_back(call_for(plan, world, plan.exchanges[e], numbers_.of({e}).all));
  make_communicators();
}

// One for each group of workers and each of its lanes, because processes may start exchanges of
// different lanes in different orders. All processes make them in the order of the plan, so the
// first missing one can always be made.
void MpiCollectives::make_communicators() {
  using Key = std::pair<std::vector<std::uint32_t>, Lane>;
  std::map<Key, std::uint32_t> known;
  MPI_Group world;
  require_success(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  for (std::uint32_t i = 0; i < plan_.exchanges.size(); ++i) {
    communicator_.push_back(0);
    if (calls_[i] == MpiCall::Messages) continue;
    const Exchange& e = plan_.exchanges[i];
    const auto next = static_cast<std::uint32_t>(communicators_.size());
    const Key key{workers_of(plan_, e), member(plan_, e, 0).lane};
    if (!known.contains(key) && next == kMostCommunicators) {
      calls_[i] = MpiCall::Messages;
      continue;
    }
    const auto [at, is_new] = known.try_emplace(key, next);
    communicator_.back() = at->second;
    if (!is_new) continue;
    communicators_.push_back(MPI_COMM_NULL);
    std::vector<int> ranks;
    for (const std::uint32_t w : key.first)
      ranks.push_back(static_cast<int>(world_.rank_of({w}, plan_.problem.workers)));
    if (std::ranges::count(ranks, static_cast<int>(world_.rank())) == 0) continue;
    MPI_Group group;
    require_success(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group),
                    "MPI_Group_incl");
    MPI_Comm& made = communicators_.back();
    require_success(MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(next), &made),
                    "MPI_Comm_create_group");
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    MPI_Group_free(&group);
  }
  MPI_Group_free(&world);
}

void MpiCollectives::free() {
  for (MPI_Comm& c : communicators_)
    if (c != MPI_COMM_NULL) MPI_Comm_free(&c);
}

std::shared_ptr<MpiCollectives::Prepared> MpiCollectives::prepared(const ExchangeMember& m) const {
  const Task& task = plan_.tasks[m.task().value];
  const Exchange& e = plan_.exchange(task);
  const std::uint32_t self = m.task().value - e.first.value;
  const MpiCall call = calls_[task.exchange.value];
  auto out = std::make_shared<Prepared>(e.members);
  if (call == MpiCall::Alltoallw) {
    for (const bool sends : {false, true})
      for (std::uint32_t other = 0; other < e.members; ++other) {
        std::vector<const MessageEnd*> messages;
        for (const MessageEnd& end : m.messages())
          if (end.sends == sends && end.peer == member(plan_, e, other).worker())
            messages.push_back(&end);
        if (messages.empty()) continue;
        (sends ? out->sends : out->receives)[other] = 1;
        (sends ? out->send_types : out->receive_types)[other] = out->type_of(messages);
      }
    return out;
  }
  // What a member gives to all, or gets of all, is contiguous in each matrix.
  const bool gathers = call == MpiCall::Allgatherv;
  const Rectangle given = m.given(), made = m.made();
  for (std::size_t i = 0; i < made.matrices.size(); ++i) {
    const std::int64_t row_bytes = made.matrices[i].row_bytes;
    if (row_bytes == 0) continue;
    Prepared::Matrix& matrix = out->matrices.emplace_back();
    matrix.to = made.matrices[i].first;
    matrix.counts = matrix.first = out->zeros;
    for (const Share& s : numbers_.of(task.exchange).all) {
      const auto count = static_cast<int>(plan_.layout.rows(s.rows).value * row_bytes);
      if (gathers && s.to == self) {
        const Region all = plan_.regions[plan_.rows(task).value];
        matrix.counts[s.from] = count;
        matrix.first[s.from] = static_cast<int>(rows_before(plan_.layout, s.rows, all) * row_bytes);
      }
      if (!gathers && s.from == self) {
        if (!matrix.from) {
          const Region all = plan_.regions[plan_.tensor(task.inputs[0]).rows.value];
          matrix.from =
              given.matrices[i].first + rows_before(plan_.layout, s.rows, all) * row_bytes;
        }
        matrix.counts[s.to] = count / static_cast<int>(sizeof(float));
      }
    }
    if (!gathers) continue;
    for (const MessageEnd& end : m.messages())  // all of one content
      if (end.sends) matrix.from = end.piece[i];
  }
  return out;
}

void MpiCollectives::start(const ExchangeMember& m, std::vector<MPI_Request>& requests) {
  const Task& task = plan_.tasks[m.task().value];
  const std::uint32_t self = m.task().value - plan_.exchange(task).first.value;
  const MPI_Comm comm = communicators_[communicator_[task.exchange.value]];
  std::shared_ptr<Prepared>& known = prepared_[m.task()];
  if (!known) known = prepared(m);
  Prepared& p = *known;
  switch (calls_[task.exchange.value]) {
    case MpiCall::Messages:
      break;
    case MpiCall::Alltoallw:
      require_success(
          MPI_Ialltoallw(MPI_BOTTOM, p.sends.data(), p.zeros.data(), p.send_types.data(),
                         MPI_BOTTOM, p.receives.data(), p.zeros.data(), p.receive_types.data(),
                         comm, &requests.emplace_back()),
          "MPI_Ialltoallw");
      break;
    case MpiCall::Allgatherv:
      for (const Prepared::Matrix& x : p.matrices)
        require_success(MPI_Iallgatherv(x.from, x.counts[self], MPI_BYTE, x.to, x.counts.data(),
                                        x.first.data(), MPI_BYTE, comm, &requests.emplace_back()),
                        "MPI_Iallgatherv");
      break;
    case MpiCall::ReduceScatter:
      for (const Prepared::Matrix& x : p.matrices)
        require_success(MPI_Ireduce_scatter(x.from, x.to, x.counts.data(), MPI_FLOAT, MPI_SUM, comm,
                                            &requests.emplace_back()),
                        "MPI_Ireduce_scatter");
      break;
  }
}

std::string MpiCollectives::words() const {
  static constexpr const char* names[] = {"messages", "MPI_Ialltoallw", "MPI_Iallgatherv",
                                          "MPI_Ireduce_scatter"};
  std::string out;
  for (const std::size_t i : {1u, 2u, 3u, 0u})
    if (const auto n = std::ranges::count(calls_, static_cast<MpiCall>(i)); n > 0)
      out += out.empty() ? fmt::format("{} by {}", counted(n, "exchange"), names[i])
                         : fmt::format(", {} by {}", n, names[i]);
  return out;
}

}  // namespace ringsched
