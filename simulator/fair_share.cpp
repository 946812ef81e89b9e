#include "fair_share.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "engines.hpp"

namespace ringsched {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNone = ~0u;
constexpr std::uint32_t kVersions = (1u << 30) - 1;  // what an event has room for

}  // namespace

FairShare::FairShare(const Network& network, std::uint32_t devices)
    : links_(network.links()), core_shares_(devices, 1), use_(network.links()) {
  for (std::uint32_t l = 0; l < network.links(); ++l) links_[l].capacity = network.capacity({l});
}

void FairShare::start(std::uint32_t flow, const Route& route, const Copying& copying, double bytes,
                      std::int64_t now) {
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  flows_[flow].route = route;
  flows_[flow].copying = copying;
  flows_[flow].bytes = bytes;
  for (const LinkId id : route.over()) {
    Link& link = links_[id.value];
    if (link.flows == 0) link.busy_since = now;
    const std::uint32_t other = link.sole;
    ++link.flows;
    link.sole ^= flow;
    if (link.flows == 2) reclassify(other, now);  // it is no longer alone on this link
  }
  join(flow, bytes, now);
}

void FairShare::stop(std::uint32_t flow, std::int64_t now) {
  const double left = leave(flow, now);
  const Flow& f = flows_[flow];
  for (const LinkId id : f.route.over()) {
    Link& link = links_[id.value];
    use_[id.value].bytes += f.bytes - left;
    --link.flows;
    link.sole ^= flow;
    if (link.flows == 1) reclassify(link.sole, now);
    if (link.flows == 0) use_[id.value].busy.value += now - link.busy_since;
  }
}

void FairShare::reclassify(std::uint32_t flow, std::int64_t now) {
  if (flows_[flow].group == kNone) return;  // it is just setting out
  join(flow, leave(flow, now), now);
}

std::uint32_t FairShare::class_of(const Flow& flow) {
  Key key;
  key.alone = kInfinity;
  key.copying = flow.copying;
  for (const LinkId id : flow.route.over()) {
    const Link& link = links_[id.value];
    if (link.flows > 1) {
      key.shared[key.count++] = id.value;
    } else {
      key.alone = std::min(key.alone, link.capacity);
    }
  }
  std::sort(key.shared.begin(), key.shared.begin() + key.count);
  const auto [found, is_new] = by_key_.try_emplace(key, 0);
  if (is_new) {
    if (free_classes_.empty()) {
      free_classes_.push_back(static_cast<std::uint32_t>(classes_.size()));
      classes_.emplace_back();
    }
    found->second = free_classes_.back();
    free_classes_.pop_back();
    Class& c = classes_[found->second];
    c.key = key;
    c.clock = 0;
    c.rate = 0;
    for (std::uint32_t i = 0; i < key.count; ++i)
      links_[key.shared[i]].classes.push_back(found->second);
  }
  return found->second;
}

void FairShare::advance(Class& c, std::int64_t now) {
  if (now > c.clock_at && c.flows > 0) c.clock += c.rate * static_cast<double>(now - c.clock_at);
  c.clock_at = now;
}

void FairShare::touch(std::uint32_t group) {
  if (classes_[group].changed) return;
  classes_[group].changed = true;
  touched_.push_back(group);
}

void FairShare::join(std::uint32_t flow, double bytes, std::int64_t now) {
  Flow& f = flows_[flow];
  f.group = class_of(f);
  Class& c = classes_[f.group];
  advance(c, now);
  f.until = c.clock + bytes;
  c.queue.push({f.until, flow, ++f.stamp});
  ++c.flows;
  touch(f.group);
}

double FairShare::leave(std::uint32_t flow, std::int64_t now) {
  Flow& f = flows_[flow];
  Class& c = classes_[f.group];
  advance(c, now);
  const double left = std::max(0.0, f.until - c.clock);
  ++f.stamp;
  touch(f.group);
  --c.flows;
  f.group = kNone;
  return left;
}

void FairShare::share_cores(std::uint32_t device, double share) {
  if (core_shares_[device] == share) return;
  core_shares_[device] = share;
  for (const auto& [key, group] : by_key_)
    if (key.copying.devices[0] == device || key.copying.devices[1] == device) touch(group);
}

// The part of the network that a change can reach: classes that share links, and their links.
void FairShare::solve(std::int64_t now) {
  ++mark_;
  part_classes_.clear();
  part_links_.clear();
  const auto reach_link = [&](std::uint32_t l) {
    if (links_[l].mark == mark_) return;
    links_[l].mark = mark_;
    part_links_.push_back(l);
  };
  for (const std::uint32_t g : touched_) {
    Class& c = classes_[g];
    c.changed = false;
    for (std::uint32_t i = 0; i < c.key.count; ++i) reach_link(c.key.shared[i]);
    if (c.flows == 0) {  // its links have classes to solve; it has nothing left
      for (std::uint32_t i = 0; i < c.key.count; ++i) {
        auto& on_link = links_[c.key.shared[i]].classes;
        on_link.erase(std::find(on_link.begin(), on_link.end(), g));
      }
      by_key_.erase(c.key);
      c.queue = {};
      c.version = (c.version + 1) & kVersions;
      free_classes_.push_back(g);
    } else if (c.mark != mark_) {
      c.mark = mark_;
      part_classes_.push_back(g);
    }
  }
  touched_.clear();
  for (std::size_t l = 0; l < part_links_.size(); ++l)
    for (const std::uint32_t g : links_[part_links_[l]].classes) {
      Class& c = classes_[g];
      if (c.mark == mark_) continue;
      c.mark = mark_;
      part_classes_.push_back(g);
      for (std::uint32_t i = 0; i < c.key.count; ++i) reach_link(c.key.shared[i]);
    }
  fill(now);
}

// The links that flows of the part still share, the tightest first. An entry may be out of date,
// but shares only grow: the queue checks again before it answers.
class FairShare::Tightest {
 public:
  explicit Tightest(FairShare& all) : links_(all.links_) {
    for (const std::uint32_t l : all.part_links_) {
      Link& link = links_[l];
      link.left = link.capacity;
      link.open = 0;
      for (const std::uint32_t g : link.classes) link.open += all.classes_[g].flows;
      if (link.open > 0) heap_.push_back({link.capacity / link.open, l});
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // Null: no link has anything left to share.
  const Link* now() {
    while (!heap_.empty()) {
      const Entry top = heap_.front();
      const Link& link = links_[top.link];
      if (link.open > 0 && share(link) <= top.share) return &link;
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      if (link.open > 0) {
        heap_.push_back({share(link), top.link});
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
    }
    return nullptr;
  }
  // As it was when the link came to the top.
  double noted_share() const { return heap_.front().share; }
  static double share(const Link& link) { return std::max(0.0, link.left) / link.open; }

 private:
  struct Entry {
    double share;
    std::uint32_t link;
    bool operator>(const Entry& o) const {
      return share > o.share || (share == o.share && link > o.link);
    }
  };
  std::vector<Link>& links_;
  std::vector<Entry> heap_;
};

// Gives the class its rate, and takes that from its links.
void FairShare::fix(std::uint32_t group, double rate, std::int64_t now) {
  Class& c = classes_[group];
  c.fixed = true;
  for (std::uint32_t i = 0; i < c.key.count; ++i) {
    Link& link = links_[c.key.shared[i]];
    link.left -= rate * c.flows;
    link.open -= c.flows;
  }
  advance(c, now);
  c.rate = rate;
  announce(group, now);
}

// Progressive filling: the tightest link, or the slowest class, fixes what it limits; then the next
// one does.
void FairShare::fill(std::int64_t now) {
  for (const std::uint32_t g : part_classes_) {
    Class& c = classes_[g];
    c.fixed = false;
    double share = 1;
    for (const std::uint32_t device : c.key.copying.devices)
      if (device != kNone) share = std::min(share, core_shares_[device]);
    c.most = std::min(c.key.alone, share * c.key.copying.rate);
  }
  std::sort(part_classes_.begin(), part_classes_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto order = [&](const Class& c) { return std::tie(c.most, c.key); };
    return order(classes_[a]) < order(classes_[b]);
  });
  Tightest tightest(*this);
  std::size_t slowest = 0;
  while (slowest < part_classes_.size()) {
    const std::uint32_t group = part_classes_[slowest];
    if (classes_[group].fixed) {
      ++slowest;
      continue;
    }
    const Link* const link = tightest.now();
    if (link == nullptr || classes_[group].most <= tightest.noted_share()) {
      fix(group, classes_[group].most, now);
      ++slowest;
      continue;
    }
    const double rate = Tightest::share(*link);
    for (const std::uint32_t g : link->classes)
      if (!classes_[g].fixed) fix(g, rate, now);
  }
}

void FairShare::announce(std::uint32_t group, std::int64_t now) {
  Class& c = classes_[group];
  const auto is_void = [&](const Entry& e) { return flows_[e.flow].stamp != e.stamp; };
  while (!c.queue.empty() && is_void(c.queue.top())) c.queue.pop();
  c.version = (c.version + 1) & kVersions;
  if (c.queue.empty()) return;
  due_.push_back({after(now, flow_ps(std::max(0.0, c.queue.top().until - c.clock), c.rate)), group,
                  c.version});
}

void FairShare::finished(const Due& due, std::int64_t now, std::vector<std::uint32_t>& flows) {
  Class& c = classes_[due.group];
  advance(c, now);
  // A message ends at a whole picosecond, so the clock has passed it, except for rounding.
  const double reached = c.clock + 1e-3 * c.rate + 1e-12 * c.clock;
  const std::size_t first = flows.size();
  while (!c.queue.empty() && c.queue.top().until <= reached) {
    const Entry top = c.queue.top();
    c.queue.pop();
    if (flows_[top.flow].stamp == top.stamp) flows.push_back(top.flow);
  }
  for (std::size_t i = first; i < flows.size(); ++i) {
    flows_[flows[i]].until = 0;  // nothing is left of it
    stop(flows[i], now);
  }
}

}  // namespace ringsched
