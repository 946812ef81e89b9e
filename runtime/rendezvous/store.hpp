// Where the processes of a run meet: a thread in process 0, at one address, to which all connect,
// process 0 too. It admits those that know the secret, distributes the text of each, tells the
// time, and notices which process is gone: at once if a connection closes, after a while if it is
// silent. Then it tells all others, and keeps their last words.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/frame.hpp"
#include "rendezvous/refusals.hpp"
#include "rendezvous/socket.hpp"

namespace ringsched {

// How often each side sends a sign of life.
inline constexpr std::chrono::milliseconds kTick{250};

struct StoreOptions {
  Address at;
  std::uint32_t size = 1;
  std::string secret;                   // empty: everybody is admitted
  std::chrono::nanoseconds patience{};  // for those that do not come, at first or to a round
  std::chrono::nanoseconds silence{};   // a process silent for this long is gone
};

// What became of a process.
struct LastWord {
  enum class State { Silent, Said, Gone } state = State::Silent;
  std::string text;  // Said: its farewell; Gone: how, for people
};

class Store {
 public:
  // `log` gets the refusals. Throws RunFailed if the address cannot be used.
  Store(const StoreOptions&, std::function<void(const std::string&)> log);
  ~Store();
  Store(const Store&) = delete;

  Address address() const { return address_; }
  // Of all processes, once each has sent them or is gone, or after this time.
  std::vector<LastWord> last_words(std::chrono::nanoseconds patience);

 private:
  using Text = std::shared_ptr<const std::string>;
  struct Visitor {
    Socket socket;
    std::string name;  // its address; of members their host and number
    std::string in;
    std::deque<Text> out;
    std::size_t sent = 0;  // of the first of them
    std::chrono::steady_clock::time_point since;
    std::string hello, nonce;           // once it has greeted
    std::optional<std::uint32_t> rank;  // of members
    unsigned silent = 0;                // ticks
    bool leaves = false;                // may close its connection
    bool closes = false;                // is closed once all is sent
    bool over = false;
  };

  void serve();
  void tick();
  void let_in();
  bool make_room();
  bool drop_a_stranger();
  std::string late(std::vector<std::uint32_t>) const;
  void receive(Visitor&);
  void flush(Visitor&);
  void handle(Visitor&, const Frame&);
  void greet(Visitor&, const Frame&);
  void admit(Visitor&, const Greeting&, unsigned version);
  bool too_late(Visitor&);
  void misfit(Visitor&, const Greeting&, const std::string& why);
  void turn_away(Visitor&, const Greeting&, const std::string& why);
  void put(Visitor&, const Frame&);
  void leave(Visitor&);
  void lose(Visitor&, const std::string& how);
  void refuse(Visitor&, const std::string& why, std::uint32_t code, bool logged = true);
  void end(const std::string& why, std::uint32_t code = kExitFailed);
  void send(Visitor&, std::string);
  void send_all(const std::string&);
  void note(std::uint32_t rank, LastWord);

  const StoreOptions options_;
  Refusals refusals_;
  const std::size_t most_strangers_;  // beside the processes that have not come yet
  Socket listening_;
  Address address_;
  Bell bell_;

  // Of the thread.
  std::list<Visitor> visitors_;
  std::vector<Visitor*> members_;  // by rank; none: not come yet, or gone
  std::uint32_t there_ = 0, left_ = 0;
  bool complete_ = false, ended_ = false;
  bool deaf_ = false;                                 // admits nobody until the next tick
  std::string why_;                                   // it ended
  std::uint32_t code_ = 0;                            // that the others end with
  std::map<std::uint32_t, std::string> turned_away_;  // by the number that they say they have
  std::uint32_t round_ = 0, given_ = 0;
  std::vector<std::optional<std::string>> texts_;  // of the round
  std::size_t held_ = 0;                           // bytes of them
  std::chrono::steady_clock::time_point began_;    // the round, or the store

  std::mutex guard_;
  std::condition_variable news_;
  std::vector<LastWord> words_;
  bool over_ = false;
  std::thread thread_;
};

// What is proved with the secret, by the store and by a process.
std::string store_proof(const std::string& secret, std::string_view hello, std::string_view nonce);
std::string process_proof(const std::string& secret, std::string_view hello,
                          std::string_view nonce);

}  // namespace ringsched
